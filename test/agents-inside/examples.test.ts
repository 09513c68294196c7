import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { freePort } from '../../packages/opencode/src/testing/free-port.ts'
import {
  type ModelReply,
  type ModelRequest,
  type ModelServer,
  startModelServer,
} from '../../packages/opencode/src/testing/model-server.ts'
import { closeAll } from '../egress/world/close.ts'
import { openWorld, type World, worldMissing } from '../egress/world/world.ts'

const root = path.resolve(import.meta.dirname, '../..')
const file = (name: string) => path.join(root, 'examples/agents-inside', name)
const expected = (name: string) => readFileSync(file(`${name}.out`), 'utf8')
const conditions = '--conditions=sandkasten-source'
const haiku = 'All tests are green now.\nThe last one was the hardest.\nTomorrow, new ones.\n'
const missing = await isolationMissing()

/** The examples of docs/agents.md as a user runs them: in processes of their own, with the real agents. */
describe.skipIf(missing)(`examples of agents inside sandboxes${missing ? ` (${missing})` : ''}`, () => {
  let home: string
  let model: ModelServer
  beforeAll(async () => {
    home = mkdtempSync(path.join(tmpdir(), 'sk-agent-examples-'))
    model = await startModelServer()
  })
  afterAll(async () => {
    await model?.close()
    rmSync(home, { recursive: true, force: true })
  })

  const run = async (name: string, script: (request: ModelRequest) => ModelReply) => {
    model.script = script
    const { stdout } = await promisify(execFile)(process.execPath, [conditions, file(`${name}.ts`)], {
      cwd: home,
      env: {
        PATH: `${path.join(root, 'node_modules/.bin')}:${process.env.PATH}`,
        HOME: home,
        SANDKASTEN_HOME: home,
        MODEL_URL: model.url,
        PORT: String(await freePort()),
      },
    })
    return stdout
  }

  it('opencode.ts', async () => {
    const stdout = await run('opencode', ({ prompt, answered, messages }) => {
      if (prompt.startsWith('What')) {
        const isRemembered = JSON.stringify(messages).includes('a haiku about tests')
        return { text: isRemembered ? 'I wrote haiku.md.' : 'I do not know.' }
      }
      const args = { filePath: '/workspace/haiku.md', content: haiku }
      return answered === 0 ? { tool: 'write', args } : { text: 'done' }
    })
    expect(stdout).toBe(expected('opencode'))
  }, 120_000)

  it('worktrees.ts', async () => {
    const stdout = await run('worktrees', ({ prompt, answered }) => {
      const about = /about (\w+)/.exec(prompt)?.[1]
      const command = `echo ${about} are green now. > haiku.md`
      return answered === 0
        ? { tool: 'bash', args: { command, description: 'Writes a file' } }
        : { text: 'done' }
    })
    expect(stdout).toBe(expected('worktrees'))
  }, 120_000)

  it('at-home.ts', async () => {
    const offered = new Set<string>()
    const stdout = await run('at-home', ({ answered, tools }) => {
      for (const tool of tools) offered.add(tool)
      const args = { path: 'haiku.md', content: haiku }
      return answered === 0 ? { tool: 'sandbox_write_file', args } : { text: 'done' }
    })
    expect(stdout).toBe(expected('at-home'))
    expect([...offered].filter((tool) => !tool.startsWith('sandbox_')).sort()).toEqual([
      'question',
      'todowrite',
    ])
  }, 120_000)
})

const worldless = missing ?? worldMissing()

/** Anthropic is a server of a small world of network namespaces, with TLS. */
describe.skipIf(worldless)(`examples with a brokered key${worldless ? ` (${worldless})` : ''}`, () => {
  let world: World
  beforeAll(async () => {
    world = await openWorld({ sniff: false })
  }, 60_000)
  afterAll(() => closeAll(world), 60_000)

  it('claude.ts', async () => {
    const key = 'sk-ant-of-the-operator-4f1d'
    const home = path.join(world.folder, 'home')
    const [program, ...args] = [...world.enter, process.execPath, conditions, file('claude.ts')]
    const env = { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home, ANTHROPIC_API_KEY: key }
    const { stdout } = await promisify(execFile)(program!, args, { cwd: root, env })
    expect(stdout).toBe(expected('claude'))
    await world.settle()
    const asked = world.records.filter(({ data }) => data.startsWith('POST api.anthropic.com /v1/messages'))
    expect(asked.length).toBeGreaterThan(1)
    expect(new Set(asked.map(({ headers }) => headers?.['x-api-key']))).toEqual(new Set([key]))
  }, 180_000)
})
