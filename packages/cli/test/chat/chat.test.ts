import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ModelServer, startModelServer } from '../../../opencode/src/testing/model-server.ts'
import { agentMissing } from '../code/sample.ts'
import { sandkasten } from '../helper.ts'
import { type Place, temporaryPlace } from '../sandbox/place.ts'

const run = promisify(execFile)
const missing = await agentMissing()

/** The real opencode at home, a sandbox of the engine, and a scripted model. The tests build on each other. */
describe.skipIf(missing)('sandkasten chat', { timeout: 240_000 }, () => {
  let place: Place
  let model: ModelServer
  beforeAll(async () => {
    place = await temporaryPlace()
    model = await startModelServer()
  })
  afterAll(async () => {
    await place?.close()
    await model?.close()
  })
  const chat = (input: string) =>
    sandkasten(['chat', 'demo', '--model', 'local/m1', '--model-url', model.url], place.env, {
      input,
      cwd: place.home,
    })

  it('answers a piped message with tools of the sandbox', async () => {
    model.script = ({ answered }) =>
      answered === 0
        ? { tool: 'sandbox_run_command', args: { cmd: 'git init -q . && echo made > made.txt && echo ran' } }
        : { text: 'It is \u001b[31mdone.' }
    const { code, stdout, stderr } = await chat('make a file\nin the sandbox')
    expect(stderr).toContain('creating “demo” at engine')
    expect(stderr).toMatch(/✓ sandbox_run_command .*\n/)
    expect(stderr).toMatch(/demo \(engine\) · local\/m1 .* s\n/)
    expect([code, stdout]).toEqual([0, 'It is \ufffd[31mdone.\n'])
    expect(model.requests.at(-1)!.prompt).toContain('make a file\nin the sandbox')
    expect(await place.ok(['exec', 'demo', '--', 'cat', 'made.txt'])).toBe('made')
  })

  it('continues the session in a new process, and runs commands', async () => {
    model.script = () => ({ text: 'Still here.' })
    const before = model.requests.length
    const { code, stdout, stderr } = await chat(
      '/shell echo from the shell\n/diff\n/pull patch\ngo on\n/quit\nnot said',
    )
    expect(code, stderr).toBe(0)
    expect(stderr).toContain('continuing in demo.')
    expect(stdout).toMatch(/^from the shell\n[\s\S]*\+made\n[\s\S]*Still here\.\n$/)
    expect(model.requests).toHaveLength(before + 1)
    expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain('make a file')
    expect(await readFile(path.join(place.home, 'demo.patch'), 'utf8')).toContain('+made')
    await run('git', ['apply', '--check', 'demo.patch'], { cwd: place.home })
  })

  it('reports an unknown command, and leaves with 1', async () => {
    const { code, stderr } = await chat('/nothing')
    expect(code).toBe(1)
    expect(stderr).toContain('There is no /nothing. See /help.')
  })
})
