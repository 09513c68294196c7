import { mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parse } from 'jsonc-parser'
import { parse as parseToml } from 'smol-toml'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AgentName, agents, install, printed } from './index.ts'

const server = { command: 'sandkasten', args: ['mcp', '--sandbox', 'web'], env: { SANDKASTEN_HOME: '/data' } }
const names = Object.keys(agents) as AgentName[]

describe('install', () => {
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(path.join(tmpdir(), 'sandkasten-install-'))
    await mkdir(path.join(home, 'project'))
  })
  afterEach(() => rm(home, { recursive: true }))

  const at = (file: string) =>
    file.startsWith('~/') ? path.join(home, file.slice(2)) : path.join(home, 'project', file)
  const run = (agent: AgentName, more: object = {}) =>
    install(agent, { server: { ...server, ...more }, project: path.join(home, 'project'), home })
  const put = async (file: string, text: string) => {
    await mkdir(path.dirname(at(file)), { recursive: true })
    await writeFile(at(file), text)
  }
  const get = (file: string) => readFile(at(file), 'utf8')

  it.each(names)('%s: creates the file, and does nothing the second time', async (agent) => {
    const file = agents[agent].files[0]!
    expect(await run(agent)).toEqual({ file: at(file), changed: true })
    const text = await get(file)
    expect(text).toBe(printed(agent, server))
    const root = agents[agent].format === 'toml' ? parseToml(text) : parse(text)
    const entry = agents[agent].at.reduce((value, key) => value[key], root)
    expect(entry).toEqual(agents[agent].entry(server))
    expect(await run(agent)).toEqual({ file: at(file), changed: false })
  })

  it('opencode’s entry has one array, and its own name for the environment', () => {
    expect(parse(printed('opencode', server))).toEqual({
      mcp: {
        sandbox: {
          type: 'local',
          command: ['sandkasten', 'mcp', '--sandbox', 'web'],
          environment: { SANDKASTEN_HOME: '/data' },
          enabled: true,
        },
      },
    })
  })

  it('keeps comments, order, other servers, and a backup', async () => {
    const before = `// mine\n{\n\t"model": "x", // keep\n\t"mcp": {\n\t\t"other": { "type": "local", "command": ["a"] },\n\t\t"sandbox": { "old": true }\n\t},\n}\n`
    await put('opencode.jsonc', before)
    const { changed, backup } = await run('opencode')
    const after = await get('opencode.jsonc')
    expect(changed).toBe(true)
    expect(after).toContain('// mine\n{\n\t"model": "x", // keep\n')
    expect(after).toContain('"other": { "type": "local", "command": ["a"] }')
    expect(parse(after).mcp.sandbox).toEqual(agents.opencode.entry(server))
    expect(await readFile(backup!, 'utf8')).toBe(before)
  })

  it('keeps comments and other tables of TOML', async () => {
    const before = `# mine\nmodel = "x" # keep\n\n[mcp_servers.sandbox] # old\ncommand = "old"\nargs = [\n  "a",\n]\n\n# about other\n[mcp_servers.other]\ncommand = "b"\n`
    await put('~/.codex/config.toml', before)
    await run('codex')
    const after = await get('~/.codex/config.toml')
    expect(after).toContain('# mine\nmodel = "x" # keep\n')
    expect(after).toContain('\n\n# about other\n[mcp_servers.other]\ncommand = "b"\n')
    expect(parseToml(after)).toEqual({
      model: 'x',
      mcp_servers: { sandbox: agents.codex.entry(server), other: { command: 'b' } },
    })
    expect((await run('codex')).changed).toBe(false)
    expect((await run('codex', { args: ['mcp', '--sandbox', 'other'] })).changed).toBe(true)
    expect(parseToml(await get('~/.codex/config.toml'))).toMatchObject({
      mcp_servers: { other: { command: 'b' } },
    })
  })

  it.each<[AgentName, string, string, RegExp]>([
    ['claude', '.mcp.json', '{\n  "a": ,\n}', /\.mcp\.json cannot be changed: line 2: ValueExpected/],
    ['claude', '.mcp.json', '[]', /it is not an object/],
    ['claude', '.mcp.json', '{"mcpServers": 1}', /“mcpServers” is not an object/],
    ['claude', '.mcp.json', '{"mcpServers": {},\n"mcpServers": {}}', /line 2: “mcpServers” is there twice/],
    ['codex', '~/.codex/config.toml', '[mcp_servers.sandbox]\n[mcp_servers.sandbox]\n', /line 2: .* twice/],
    [
      'codex',
      '~/.codex/config.toml',
      'mcp_servers = { a = 1 }\n',
      /line 1: mcp_servers is not written as tables/,
    ],
    ['codex', '~/.codex/config.toml', '[mcp_servers]\nsandbox = { command = "x" }\n', /line 1: sandbox/],
    ['codex', '~/.codex/config.toml', '[mcp_servers.sandbox.env]\na = "b"\n', /line 1: a table inside of/],
    ['codex', '~/.codex/config.toml', 'a = """\n[mcp_servers.sandbox]\n"""\n', /line 1: a multi-line string/],
  ])('%s: refuses %s with %j, and leaves it as it was', async (agent, file, text, problem) => {
    await put(file, text)
    await expect(run(agent)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringMatching(problem),
      hint: expect.stringContaining('--print'),
    })
    expect(await get(file)).toBe(text)
  })

  it('keeps the mode of the file, and a link to it', async () => {
    await put('real.json', '{}')
    await rm(at('real.json'))
    await writeFile(at('real.json'), '{}', { mode: 0o600 })
    await symlink('real.json', at('.mcp.json'))
    await run('claude')
    expect((await stat(at('real.json'))).mode & 0o777).toBe(0o600)
    expect(parse(await get('real.json')).mcpServers.sandbox).toBeDefined()
  })
})
