import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RunCommandOptions } from '../spec/index.ts'
import { cloneRepo } from './index.ts'
import { GitServer, git, localSandbox, removeTempFolders } from './test-kit.ts'
import type { RecipeSandbox } from './types.ts'

let server: GitServer
let token: string
let url: string

beforeAll(async () => {
  server = await GitServer.start()
  token = server.token
  url = server.url
})

afterAll(() => {
  server?.stop()
  removeTempFolders()
})

const grep = (dir: string, text: string) =>
  spawnSync('grep', ['-rFl', '--', text, dir], { encoding: 'utf8' }).stdout

function recording(sandbox: RecipeSandbox): { sandbox: RecipeSandbox; argv: string[] } {
  const argv: string[] = []
  const runCommand = ((options: RunCommandOptions) => {
    argv.push([options.cmd, ...(options.args ?? [])].join(' '))
    return sandbox.runCommand(options)
  }) as RecipeSandbox['runCommand']
  return {
    sandbox: { sandboxId: sandbox.sandboxId, workdir: sandbox.workdir, files: sandbox.files, runCommand },
    argv,
  }
}

describe('cloneRepo', () => {
  it('63, T3: the token reaches the server, but no file, argument or configuration of the sandbox', async () => {
    const { sandbox, dir, root } = await localSandbox()
    const recorded = recording(sandbox)
    server.requests.length = 0
    const result = await cloneRepo(recorded.sandbox, { url, token, path: 'app' })
    expect(server.requests).toContain(server.authorization)
    // A server that asks for the user gets the token, and echoing it does not leak it.
    const refused = cloneRepo(recorded.sandbox, { url, token, username: 'me', path: 'mine' })
    const said = await refused.catch((error: Error) => error.message)
    const basic = Buffer.from(`me:${token}`).toString('base64')
    expect(server.requests).toContain(`Basic ${basic}`)
    expect(said).not.toContain(basic)
    expect(result).toEqual({
      path: join(dir, 'app'),
      head: expect.stringMatching(/^[0-9a-f]{40}$/),
      branch: 'main',
    })
    expect(readFileSync(join(dir, 'app/readme.md'), 'utf8')).toBe('hello')
    expect(git(join(dir, 'app'), 'config', 'remote.origin.url')).toBe(url)
    expect(recorded.argv.join('\n')).not.toContain(token)
    for (const form of [
      token,
      encodeURIComponent(token),
      Buffer.from(`x-access-token:${token}`).toString('base64'),
    ])
      expect(grep(root, form)).toBe('')
    expect(JSON.stringify(result)).not.toContain(token)
  })

  it('clones a branch at a depth into the working directory', async () => {
    const { sandbox, dir } = await localSandbox()
    expect(await cloneRepo(sandbox, { url, token, branch: 'dev', depth: 1 })).toMatchObject({
      path: sandbox.workdir,
      branch: 'dev',
    })
    expect(git(dir, 'rev-list', '--count', 'HEAD')).toBe('1')
  })

  it('77, 78: a failed clone cleans up, and the error does not contain the token, even if the server echoes it', async () => {
    const { sandbox, dir } = await localSandbox()
    const basic = Buffer.from(`x-access-token:${token}`).toString('base64')
    server.answer = () => `you sent ${token} and ${basic} and ${encodeURIComponent(token)}`
    const error = await cloneRepo(sandbox, { url, token, path: 'app' }).catch((e) => e)
    server.answer = undefined
    expect(error).toMatchObject({ code: 'provider_error', hint: expect.stringContaining('token') })
    for (const form of [token, basic, encodeURIComponent(token)])
      expect(`${error.message}${error.stack}${JSON.stringify(error)}`).not.toContain(form)
    expect(readdirSync(dir)).toEqual([])
    await expect(cloneRepo(sandbox, { url, token: 'wrong' })).rejects.toMatchObject({
      code: 'provider_error',
    })
    await expect(cloneRepo(sandbox, { url, token, branch: 'absent' })).rejects.toMatchObject({
      code: 'provider_error',
    })
    expect(readdirSync(dir)).toEqual([])
  })

  it('rejects credentials in the address, a token over plain http, a folder in use, and wrong options', async () => {
    const { sandbox } = await localSandbox()
    await sandbox.writeFile('full/x', 'x')
    for (const [opts, code] of [
      [{ url: 'https://user:pw@github.com/a/b' }, 'invalid_argument'],
      [{ url: 'http://github.com/a/b', token }, 'invalid_argument'],
      [{ url, token, path: 'full' }, 'directory_not_empty'],
      [{ url, depth: 0 }, 'invalid_argument'],
      [{ url: '' }, 'invalid_argument'],
      [{ url, tokn: 'x' }, 'invalid_argument'],
      [{ url, token: 'two\nlines' }, 'invalid_argument'],
    ] as const) {
      const error = await cloneRepo(sandbox, opts as never).catch((e) => e)
      expect([opts.url, error.code]).toEqual([opts.url, code])
      expect(`${error.message}${error.hint}`).not.toMatch(/gitToken|ghp_|pw@/)
    }
  })

  it('a cancelled clone leaves the folder as it was', async () => {
    const { sandbox, dir } = await localSandbox()
    const controller = new AbortController()
    server.answer = () => {
      controller.abort()
      return 'late'
    }
    await expect(cloneRepo(sandbox, { url, token, signal: controller.signal })).rejects.toMatchObject({
      code: 'aborted',
    })
    server.answer = undefined
    expect(readdirSync(dir)).toEqual([])
  })
})
