import path from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { folderWithoutScript } from '../sandbox/place.ts'
import { keys, onTerminal } from '../sandbox/pty.ts'
import { agentMissing, type Sample, sample } from './sample.ts'

const missing = await agentMissing()

/** opencode's own interface on a terminal of the sandbox, connected to a real terminal here. */
describe.skipIf(missing)('on a terminal, sandkasten code', () => {
  let project: Sample
  beforeAll(async () => {
    project = await sample()
    // The first start takes longer than a test waits for a text on its terminal.
    const ready = await project.code(['-p', 'hello', '--model', 'local/m1', '--model-url', project.model.url])
    expect(ready.code, ready.stderr).toBe(0)
  }, 120_000)
  afterAll(() => project?.[Symbol.asyncDispose]())
  const terminal = (...args: string[]) => onTerminal(['code', ...args], project.env, project.folder)

  it('opens the agent, shows its answer, and pulls the changes', async () => {
    const { model, git } = project
    model.script = ({ answered }) =>
      answered === 0
        ? { tool: 'write', args: { filePath: '/workspace/new.txt', content: 'from the agent\n' } }
        : { text: 'zebras are striped' }
    const pty = terminal('--new')
    await pty.expect('Ask anything', 'write a file')
    await pty.expect('write a file', keys.enter)
    await pty.expect('striped')
    pty.type(keys.interrupt)
    await pty.expect('new.txt  +1 (new)')
    await pty.expect('Pull the changes?', keys.enter)
    await pty.expect('git merge sandkasten/code-my-app-')
    await pty.expect('Come back: sandkasten code')
    expect(await pty.ended()).toBe(0)
    expect(await git('show', `sandkasten/${await project.name()}:new.txt`)).toBe('from the agent')
    expect(await git('status', '--porcelain')).toBe('')
  })

  it('comes back to the same session, and “not now” pulls nothing', async () => {
    const { model, git } = project
    const branches = await git('branch', '--list')
    const pty = terminal()
    await pty.expect('striped')
    const asked = model.next()
    pty.type('and horses?')
    await pty.expect('and horses?', keys.enter)
    expect(JSON.stringify((await asked).messages)).toContain('write a file')
    await pty.expect('striped')
    pty.type(keys.interrupt)
    await pty.expect('Pull the changes?', `${keys.down}${keys.down}${keys.enter}`)
    await pty.expect('Come back')
    expect(await pty.ended()).toBe(0)
    expect(await git('branch', '--list')).toBe(branches)
  })

  it('leaves no password where other programs of the sandbox see it', async () => {
    const pty = terminal('--pull', 'no')
    await pty.expect('striped')
    const lines = await project.inside('cat /proc/[0-9]*/cmdline | tr "\\0" " "')
    expect(lines).toContain('attach http://127.0.0.1:7777')
    expect(lines).not.toMatch(/password|-p /)
    pty.type(keys.interrupt)
    expect(await pty.ended()).toBe(0)
  })

  it('a lost sandbox ends the agent, and restores the terminal', async () => {
    const pty = terminal()
    await pty.expect('striped')
    await project.place.ok(['stop', '--force', await project.name()])
    expect(await pty.ended()).not.toBe(0)
    expect(pty.raw.lastIndexOf('\x1b[?1049l')).toBeGreaterThan(pty.raw.lastIndexOf('\x1b[?1049h'))
    expect(stripVTControlCharacters(pty.raw)).toContain('sandkasten')
  })

  it('Ctrl-C while a stopped sandbox starts ends the start, and says how to come back', async () => {
    const pty = terminal()
    await pty.expect(/…/, keys.interrupt)
    await pty.expect(/Come back:\s+sandkasten code/)
    expect(await pty.ended()).toBe(130)
  })
})

describe.skipIf(missing)('at a provider without terminals, sandkasten code', () => {
  let project: Sample
  beforeAll(async () => {
    project = await sample()
  })
  afterAll(() => project?.[Symbol.asyncDispose]())

  it('names -p, and has the provider’s own network', async () => {
    const { model, folder, place } = project
    const args = ['code', '--provider', 'local', '--model', 'local/m1', '--model-url', model.url]
    // Without `script` on PATH the provider has no terminals.
    const PATH = `${path.dirname(process.execPath)}:${await folderWithoutScript(place)}`
    const pty = onTerminal(args, { ...place.env, PATH }, folder)
    await pty.expect('no network policies')
    await pty.expect('has no terminals')
    await pty.expect('sandkasten code -p')
    expect(await pty.ended()).toBe(125)
  })
})
