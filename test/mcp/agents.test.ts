import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type ModelServer, modelServer, type Turn } from './model-server.ts'
import { type McpPlace, mcpPlace } from './place.ts'

const missing = await isolationMissing()
const programs = path.resolve(import.meta.dirname, '../../node_modules/.bin')
/** One white pixel. */
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** What the model asks for; `as` makes an agent’s name of a tool. */
const conversation = (as: (tool: string) => string): Turn[] => [
  {
    tool: as('run_command'),
    input: { cmd: `echo ${png} | base64 -d > a.png; echo from $(hostname); exit 3` },
  },
  { tool: as('write_file'), input: { path: 'notes.md', content: 'alpha\nbeta\n' } },
  { tool: as('edit_file'), input: { path: 'notes.md', oldString: 'beta', newString: 'gamma' } },
  { tool: as('search'), input: { pattern: 'g[a]mma' } },
  { tool: as('read_file'), input: { path: 'a.png' } },
  { tool: as('read_file'), input: { path: 'missing' } },
  { tool: as('run_command'), input: { cmd: 'seq 30000' } },
  { text: 'all done' },
]

/** Real agents with a scripted model use the tools against one sandbox of the engine. */
describe.skipIf(missing)('agents', () => {
  let place: McpPlace
  let project: string
  beforeAll(async () => {
    place = await mcpPlace()
    project = path.join(place.home, 'project')
    await mkdir(project)
  })
  afterAll(() => place?.close())

  const run = (program: string, args: readonly string[], env: Record<string, string>) =>
    new Promise<{ code: number | null; output: string }>((resolve) => {
      const child = spawn(path.join(programs, program), args, {
        cwd: project,
        env: { PATH: process.env.PATH, HOME: place.home, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
        timeout: 90_000,
      })
      let output = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
      child.once('close', (code) => resolve({ code, output }))
    })

  const expectConversation = ({ requests }: ModelServer) => {
    expect(requests).toHaveLength(8)
    const texts = requests.at(-1)!.results.map(({ text }) => text)
    expect(texts[0]).toMatch(/^exit=3\nfrom /)
    expect(texts[1]).toMatch(/^Wrote 11 bytes to notes\.md\./)
    expect(texts[2]).toMatch(/^Replaced 1 of 1 in notes\.md, at line 2\./)
    expect(texts[3]).toMatch(/^notes\.md:2: gamma/)
    expect(texts[4]).toMatch(/^a\.png \(image\/png, 70 B\)/)
    expect(texts[5]).toMatch(/missing.*No such file.* list_files\.\s+The sandbox “web” is running\./s)
    expect(texts[6]).toMatch(/^exit=0\n\(output shortened; all of it is in \/tmp\/sandbox-output\/\S+\.txt/)
    expect(texts[6]).toMatch(/\n30000\s*(<system|$)/)
  }

  it('Claude Code', async () => {
    await using model = await modelServer(conversation((tool) => `mcp__sandbox__${tool}`))
    const config = path.join(place.home, 'claude.json')
    await writeFile(config, JSON.stringify({ mcpServers: { sandbox: { type: 'stdio', ...place.server } } }))
    const args = ['--mcp-config', config, '--strict-mcp-config', '--allowedTools', 'mcp__sandbox']
    const { code, output } = await run('claude', ['-p', 'go', ...args], {
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: 'sk-ant-test',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    })
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('all done') })
    // Its own search for tools would hide ours from the model.
    expect(model.requests[0]!.tools).toContain('mcp__sandbox__run_command')
    expectConversation(model)
    const { results } = model.requests.at(-1)!
    expect(results[4]!.images).toEqual([png])
    expect(results.map(({ isError }) => isError)).toEqual([false, false, false, false, false, true, false])
  }, 120_000)

  it('opencode', async () => {
    await using model = await modelServer(conversation((tool) => `sandbox_${tool}`))
    const { command, args, env } = place.server
    const config = {
      autoupdate: false,
      share: 'disabled',
      model: 'local/m',
      small_model: 'local/m',
      enabled_providers: ['local'],
      permission: { '*': 'deny', 'sandbox_*': 'allow' },
      mcp: { sandbox: { type: 'local', command: [command, ...args], environment: env, enabled: true } },
      provider: {
        local: {
          npm: '@ai-sdk/openai-compatible',
          options: { baseURL: `${model.url}/v1`, apiKey: 'sk-local' },
          models: { m: { tool_call: true, limit: { context: 128_000, output: 8_192 } } },
        },
      },
    }
    const models = path.join(place.home, 'models.json')
    await writeFile(models, '{}')
    const packages = path.join(place.home, '.config/opencode')
    await mkdir(path.join(packages, 'node_modules'), { recursive: true })
    // It would install its plugin package otherwise.
    const lock = { packages: { '': { dependencies: { '@opencode-ai/plugin': '*' } } } }
    await writeFile(path.join(packages, 'package-lock.json'), JSON.stringify(lock))
    const { code, output } = await run('opencode', ['run', 'go'], {
      OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      OPENCODE_DISABLE_PROJECT_CONFIG: '1',
      OPENCODE_MODELS_PATH: models,
    })
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('all done') })
    expect(model.requests[0]!.tools.filter((name) => !name.startsWith('sandbox_'))).toEqual([])
    expectConversation(model)
  }, 120_000)
})
