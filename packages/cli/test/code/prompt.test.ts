import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { steps } from '../../../opencode/src/testing/model-server.ts'
import { start } from '../helper.ts'
import { agentMissing, type Sample, sample } from './sample.ts'

const missing = await agentMissing()

/**
 * The real opencode in a sandbox of the engine, with a scripted model. The tests build on each other. The first run
 * copies the agent into the sandbox, which takes long on a busy machine.
 */
describe.skipIf(missing)('sandkasten code -p', { timeout: 180_000 }, () => {
  let project: Sample
  beforeAll(async () => {
    project = await sample()
  })
  afterAll(() => project?.[Symbol.asyncDispose]())
  const local = (file: string) => path.join(project.folder, file)
  const report = (stdout: string) => JSON.parse(stdout) as Record<string, unknown> & { sessionId: string }
  let session: string

  it('uploads the project, runs the prompt, and pulls a branch', async () => {
    const { model, code, git } = project
    model.script = steps(
      { tool: 'edit', args: { filePath: '/workspace/sum.js', oldString: 'a - b', newString: 'a + b' } },
      { tool: 'bash', args: { command: 'echo tested > status.txt; id -u', description: 'look' } },
    )
    const args = ['-p', 'fix sum', '--model', 'local/m1', '--model-url', model.url, '--pull', 'branch']
    const { code: exitCode, stdout, stderr } = await code(args)
    expect(stderr).toMatch(
      /uploading [\s\S]*opencode .* is ready[\s\S]*sandkasten: edit\n[\s\S]*sandkasten: bash\n/,
    )
    expect([exitCode, stdout]).toEqual([0, 'done\n'])
    const name = await project.name()
    expect(name).toMatch(/^code-my-app-[0-9a-f]{6}$/)
    expect(stderr).toContain(`changed in ${name}:\n  status.txt  +1 (new)\n  sum.js  +1 -1\n`)
    expect(stderr).toContain(`git merge sandkasten/${name}`)
    expect(stderr).toContain('Come back: sandkasten code\n')
    // Nothing here has changed but for the new branch.
    expect(await git('status', '--porcelain')).toBe('')
    expect(await git('branch', '--show-current')).toBe('main')
    expect(await git('show', `sandkasten/${name}:sum.js`)).toBe('export const sum = (a, b) => a + b')
    // The sandbox reaches the model, and nothing else.
    expect(
      await project.inside(
        'cat /etc/resolv.conf > /dev/null; command -v curl > /dev/null && curl -sm 5 http://192.0.2.1 || echo refused',
      ),
    ).toBe('refused')
  })

  it('a second run continues the session, and uploads what changed here', async () => {
    const { model, code } = project
    await writeFile(local('notes.txt'), 'first\nsecond\nthird\n')
    model.script = ({ answered }) =>
      answered === 0
        ? { tool: 'bash', args: { command: 'tail -n 1 notes.txt', description: 'read' } }
        : { text: 'read it' }
    const seen = model.requests.length
    const { code: exitCode, stdout, stderr } = await code(['-p', '-', '--json'], { input: 'go on\n' })
    expect(exitCode, stderr).toBe(0)
    expect(stderr).toContain('changed here since the last time: 1 sent')
    expect(stderr).not.toContain('copies opencode')
    const result = report(stdout)
    expect(result).toMatchObject({
      sandbox: await project.name(),
      agent: 'opencode',
      text: 'read it',
      files: [
        { path: 'status.txt', change: 'added', added: 1, removed: 0 },
        { path: 'sum.js', change: 'modified', added: 1, removed: 1 },
      ],
      conflicts: [],
    })
    expect(result.diff).toContain('+export const sum = (a, b) => a + b')
    session = result.sessionId
    const [asked, answered] = model.requests.slice(seen)
    expect(JSON.stringify(asked!.messages)).toContain('fix sum')
    expect(answered!.lastResult).toContain('third')
  })

  it('never overwrites what changed on both sides', async () => {
    const { model, code } = project
    await writeFile(local('sum.js'), 'export const sum = (...all) => all.length\n')
    model.script = () => ({ text: 'nothing to do' })
    const { code: exitCode, stdout, stderr } = await code(['-p', 'again', '--json', '--pull', 'patch'])
    expect(exitCode, stderr).toBe(0)
    expect(stderr).toMatch(
      /not uploaded, because .* has its own changes:\n {2}sum.js: changed here and in the sandbox/,
    )
    expect(stderr).toContain('changed on both sides:\n  sum.js')
    const result = report(stdout)
    expect(result.sessionId).toBe(session)
    expect(result).toMatchObject({ conflicts: [{ path: 'sum.js' }], files: [{ path: 'status.txt' }] })
    expect(await project.inside('cat sum.js')).toContain('a + b')
    expect(await readFile(local('sum.js'), 'utf8')).toContain('all.length')
    // The patch is outside of the project, which would upload it the next time.
    expect(await readFile(String(result.patch), 'utf8')).toContain('status.txt')
    expect(path.dirname(String(result.patch))).toBe(path.join(project.env.SANDKASTEN_HOME!, 'code'))
    await project.git('checkout', '--', 'sum.js')
  })

  it('--new begins another session', async () => {
    project.model.script = () => ({ text: 'fresh' })
    const { stdout } = await project.code(['-p', 'hello', '--new', '--json'])
    expect(report(stdout)).toMatchObject({ text: 'fresh' })
    expect(report(stdout).sessionId).not.toBe(session)
    expect(JSON.stringify(project.model.requests.at(-1)!.messages)).not.toContain('fix sum')
  })

  it('Ctrl-C cancels the prompt, and a second run works', async () => {
    const { model, env, folder, code } = project
    model.script = () => ({ hang: true })
    const asked = model.next()
    const child = start(['code', '-p', 'never ends', '--json'], env, { cwd: folder })
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name]!.setEncoding('utf8').on('data', (text: string) => {
        said[name] += text
      })
    const ended = new Promise((resolve) => child.once('close', resolve))
    await asked
    child.kill('SIGINT')
    expect(await ended, said.stderr).toBe(130)
    expect(said.stderr).toMatch(/cancelling the prompt[\s\S]*was cancelled[\s\S]*Come back: sandkasten code/)
    expect(report(said.stdout)).toMatchObject({ error: 'cancelled', text: '' })
    model.script = () => ({ text: 'still here' })
    expect(await code(['-p', 'and now'])).toMatchObject({ code: 0, stdout: 'still here\n' })
  })

  it('the prompt goes on when the reader of the answer leaves', async () => {
    const { model, env, folder } = project
    model.script = steps({ tool: 'bash', args: { command: 'echo kept > kept.txt', description: 'write' } })
    const child = start(['code', '-p', 'go on', '--pull', 'patch'], env, { cwd: folder })
    child.stdout!.destroy()
    let stderr = ''
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    const [exitCode] = await once(child, 'close')
    expect([exitCode, stderr]).toEqual([
      0,
      expect.stringMatching(/kept\.txt[\s\S]*Come back: sandkasten code/),
    ])
  })

  it('a failing agent exits with 1, and says why', async () => {
    const refusing = createServer((_, response) => {
      response
        .writeHead(401, { 'content-type': 'application/json' })
        .end('{"error":{"message":"no such key"}}')
    }).listen(0, '127.0.0.1')
    await once(refusing, 'listening')
    const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}/v1`
    const { code: exitCode, stdout, stderr } = await project.code(['-p', 'x', '--json', '--model-url', url])
    refusing.close()
    expect(stderr).toMatch(/opencode failed: .*no such key/)
    expect(exitCode).toBe(1)
    expect(report(stdout)).toMatchObject({ error: expect.stringContaining('no such key') })
  })

  it('a stopped sandbox starts again with its session', async () => {
    project.model.script = () => ({ text: 'awake' })
    const before = await project.code([
      '-p',
      'x',
      '--json',
      '--model',
      'local/m1',
      '--model-url',
      project.model.url,
    ])
    await project.place.ok(['stop', await project.name()])
    const { stdout, stderr } = await project.code(['-p', 'y', '--json'])
    expect(report(stdout), stderr).toMatchObject({
      text: 'awake',
      sessionId: report(before.stdout).sessionId,
    })
  })

  it('refuses another provider for the same sandbox', async () => {
    const { code: exitCode, stderr } = await project.code(['-p', 'x', '--provider', 'local'])
    expect(exitCode).toBe(125)
    expect(stderr).toMatch(/is at engine, not at local/)
  })
})
