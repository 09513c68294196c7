import { spawn, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cloneRepo } from './index.ts'
import { git, localSandbox, removeTempFolders, repository, tempFolder } from './test-kit.ts'
import type { RecipeSandbox } from './types.ts'

const token = 'ghp_s3cret+/=token'
const requests: string[] = []
let origin: string
let url: string
let answer: ((request: IncomingMessage) => string | undefined) | undefined

const server = createServer(async (request, response) => {
  const authorization = request.headers.authorization ?? ''
  requests.push(authorization)
  const body = answer?.(request)
  if (body !== undefined) return response.writeHead(500, { 'content-type': 'text/plain' }).end(body)
  if (authorization !== `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`) {
    return response
      .writeHead(401, { 'www-authenticate': 'Basic realm="git"' })
      .end(`wrong token: ${authorization}`)
  }
  const { pathname, search } = new URL(request.url!, 'http://x')
  const env = {
    ...process.env,
    GIT_PROJECT_ROOT: origin,
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: pathname,
    QUERY_STRING: search.slice(1),
    REQUEST_METHOD: request.method,
    CONTENT_TYPE: request.headers['content-type'] ?? '',
    HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
    REMOTE_ADDR: '127.0.0.1',
  }
  const backend = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  request.pipe(backend.stdin)
  const chunks: Buffer[] = []
  for await (const chunk of backend.stdout) chunks.push(chunk)
  const all = Buffer.concat(chunks)
  const end = all.indexOf('\r\n\r\n')
  for (const line of all.subarray(0, end).toString().split('\r\n')) {
    const [name, value] = line.split(': ')
    if (name?.toLowerCase() === 'status') response.statusCode = Number.parseInt(value!, 10)
    else response.setHeader(name!, value!)
  }
  response.end(all.subarray(end + 4))
})

beforeAll(async () => {
  const source = repository({ 'readme.md': 'hello' })
  git(source, 'commit', '-q', '--allow-empty', '-m', 'second')
  git(source, 'branch', 'dev', 'HEAD~1')
  origin = tempFolder('origin')
  git(origin, 'clone', '-q', '--bare', source, 'app.git')
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/app.git`
})

afterAll(() => {
  server.close()
  removeTempFolders()
})

const grep = (dir: string, text: string) =>
  spawnSync('grep', ['-rFl', '--', text, dir], { encoding: 'utf8' }).stdout

/** A sandbox that keeps every command line it is given. */
function recording(sandbox: RecipeSandbox): { sandbox: RecipeSandbox; argv: string[] } {
  const argv: string[] = []
  const runCommand = ((options: { cmd: string; args?: string[] }) => {
    argv.push([options.cmd, ...(options.args ?? [])].join(' '))
    return sandbox.runCommand(options as never)
  }) as RecipeSandbox['runCommand']
  return {
    sandbox: { sandboxId: sandbox.sandboxId, workdir: sandbox.workdir, files: sandbox.files, runCommand },
    argv,
  }
}

describe('cloneRepo', () => {
  it('63, T3: the token reaches the server, and stays in no file, argument or configuration of the sandbox', async () => {
    const { sandbox, dir, root } = await localSandbox()
    const recorded = recording(sandbox)
    requests.length = 0
    const result = await cloneRepo(recorded.sandbox, { url, token, path: 'app' })
    expect(requests).toContain(`Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`)
    // A server that asks whose it is learns it, and repeats it in vain.
    const refused = cloneRepo(recorded.sandbox, { url, token, username: 'me', path: 'mine' })
    const said = await refused.catch((error: Error) => error.message)
    const basic = Buffer.from(`me:${token}`).toString('base64')
    expect(requests).toContain(`Basic ${basic}`)
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

  it('77, 78: a failed clone removes what it made, and the token is not in the error, even if the server repeats it', async () => {
    const { sandbox, dir } = await localSandbox()
    const basic = Buffer.from(`x-access-token:${token}`).toString('base64')
    answer = () => `you sent ${token} and ${basic} and ${encodeURIComponent(token)}`
    const error = await cloneRepo(sandbox, { url, token, path: 'app' }).catch((e) => e)
    answer = undefined
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

  it('refuses credentials in the address, a token over plain http, a folder in use, wrong options', async () => {
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
    answer = () => {
      controller.abort()
      return 'late'
    }
    await expect(cloneRepo(sandbox, { url, token, signal: controller.signal })).rejects.toMatchObject({
      code: 'aborted',
    })
    answer = undefined
    expect(readdirSync(dir)).toEqual([])
  })
})
