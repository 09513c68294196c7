import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sandkasten } from '../../packages/cli/test/helper.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { claudeEnv, opencodeEnv, runAgentProgram } from './agent-programs.ts'
import { modelServer, type Turn } from './model-server.ts'
import { type McpPlace, mcpPlace } from './place.ts'

const missing = await isolationMissing()

const conversation = (tool: string): Turn[] => [
  { tool, input: { cmd: 'echo works in $PWD' } },
  { text: 'all done' },
]

/** The real agents read what `sandkasten mcp install` has written, in a project that has a configuration already. */
describe.skipIf(missing)('mcp install', () => {
  let place: McpPlace
  let project: string
  beforeAll(async () => {
    place = await mcpPlace()
    project = path.join(place.home, 'project')
    await mkdir(project)
  })
  afterAll(() => place?.close())

  const install = async (agent: string) => {
    const args = ['mcp', 'install', agent, '--sandbox', 'web']
    const { code, stderr } = await sandkasten(args, place.env, { cwd: project })
    expect(code, stderr).toBe(0)
  }

  it('opencode', async () => {
    const file = path.join(project, 'opencode.jsonc')
    await writeFile(file, '{\n  // mine\n  "permission": { "*": "deny", "sandbox_*": "allow" },\n}\n')
    await install('opencode')
    expect(await readFile(file, 'utf8')).toContain('// mine')
    await using model = await modelServer(conversation('sandbox_run_command'))
    const env = await opencodeEnv(place, model.url)
    const { code, output } = await runAgentProgram('opencode', ['run', 'go'], { place, project, env })
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('all done') })
    expect(model.requests.at(-1)!.results.at(-1)!.text).toMatch(/^exit=0\nworks in \/workspace/)
  }, 120_000)

  it('Claude Code', async () => {
    await writeFile(path.join(project, '.mcp.json'), '{ "mcpServers": {} }')
    await install('claude')
    await using model = await modelServer(conversation('mcp__sandbox__run_command'))
    // A person is asked once for each project.
    const approved = JSON.stringify({ enabledMcpjsonServers: ['sandbox'] })
    const args = ['-p', 'go', '--settings', approved, '--allowedTools', 'mcp__sandbox']
    const env = claudeEnv(model.url)
    const { code, output } = await runAgentProgram('claude', args, { place, project, env })
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('all done') })
    expect(model.requests.at(-1)!.results.at(-1)!.text).toMatch(/^exit=0\nworks in \/workspace/)
  }, 120_000)
})
