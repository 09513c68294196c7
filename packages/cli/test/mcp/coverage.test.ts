import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connectAgent } from '../../../../test/mcp/agent.ts'
import { type McpPlace, mcpPlace } from '../../../../test/mcp/place.ts'
import { isolationMissing } from '../../../daemon/src/testing/isolator.ts'
import { commandLine } from '../../src/main.ts'
import { bin, start } from '../helper.ts'

const missing = await isolationMissing()
const mcp = commandLine().program.commands.find((command) => command.name() === 'mcp')!

/** `mcp --sandbox`, `token --save`, …: every command and every option. */
function everything(): string[] {
  return [mcp, ...mcp.commands].flatMap((command: Command) => [
    command.name(),
    ...command.options.map((option) => `${command.name()} ${option.long}`),
  ])
}

const elsewhere: Record<string, string> = { 'mcp --listen': 'test/mcp/clients.test.ts' }

describe.skipIf(missing)('sandkasten mcp', () => {
  let place: McpPlace
  beforeAll(async () => {
    place = await mcpPlace()
  })
  afterAll(() => place?.close())

  const seen = new Set<string>()
  const note = (args: readonly string[]) => {
    const command = mcp.commands.find((one) => one.name() === args[0]) ?? mcp
    seen.add(command.name())
    for (const option of command.options)
      if (args.includes(option.long!)) seen.add(`${command.name()} ${option.long}`)
  }
  const run = async (...args: string[]) => {
    note(args)
    return place.mcp(args)
  }
  /** What an agent gets that starts the server with these arguments. */
  const whoami = async (args: readonly string[], env: Record<string, string> = {}, file = bin) => {
    note(args)
    const all = file === bin ? [file, 'mcp', ...args] : [file, ...args]
    const server = { ...place.server, args: all, env: { ...place.server.env, ...env } }
    await using agent = await connectAgent({ ...place, server })
    return (await agent.call('status')).text.split('\n')[0]
  }

  it('serves a sandbox by name and by its provider’s id, with a token from three places', async () => {
    const { providerSandboxId: id } = await place.json<{ providerSandboxId: string }>(['show', 'web'])
    expect(await whoami(['--sandbox', 'web', '--allow-folder', place.home])).toBe('name: web')
    expect(await whoami(['--provider-sandbox', id])).toBe('name: web')
    expect(await whoami([id], {}, path.resolve(bin, '../sandbox-mcp-server.js'))).toBe('name: web')
    expect(await whoami(['--provider-sandbox', `engine:${id}`])).toBe('name: web')
    const token = (await run('token', 'web')).stdout.trim()
    const file = path.join(place.home, 'token')
    await writeFile(file, `${token}\n`, { mode: 0o600 })
    expect(await whoami(['--token-file', file])).toBe('name: web')
    expect(await whoami([], { SANDKASTEN_MCP_TOKEN: token })).toBe('name: web')
    await chmod(file, 0o644)
    expect(await whoami(['--token-file', file])).toMatch(
      /^Error: Others may read the token file .* chmod 600/,
    )
    expect(await whoami(['--sandbox', 'none'])).toMatch(
      /^Error: There is no sandbox “none”\. See sandkasten sandbox/,
    )
    expect(await whoami(['--provider-sandbox', 'none'])).toMatch(
      /^Error: No sandbox of the registry has the provider’s id/,
    )
    expect(await run('--json')).toMatchObject({ code: 125 })
    expect((await run()).stderr).toMatch(/No sandbox was named\.\n {2}Add --sandbox NAME/)
  })

  it('serves an agent that has only a token and the broker’s address', async () => {
    const token = (await run('token', '--provider-sandbox', 'none')).stderr
    expect(token).toContain('No sandbox of the registry')
    note(['broker', '--port'])
    const broker = start(['mcp', 'broker', '--port', '0'], { ...place.env, SANDKASTEN_HOME: await second() })
    const address = await new Promise<string>((resolve) => {
      let said = ''
      broker.stderr!.on('data', (chunk) => {
        said += chunk
        const found = /listens on (\S+)/.exec(said)
        if (found) resolve(found[1]!)
      })
    })
    // The token is of another registry: its broker does not know it.
    const wrong = (await run('token', 'web')).stdout.trim()
    // No home folder: neither a registry nor a saved token can be found.
    const env = { SANDKASTEN_MCP_TOKEN: wrong, SANDKASTEN_HOME: '/nonexistent', HOME: '/nonexistent' }
    expect(await whoami(['--broker', address], env)).toMatch(/^Error: The broker does not accept the token/)
    const rebound = await fetch(`${address}/v1/tools/status`, {
      method: 'POST',
      headers: { authorization: `Bearer ${wrong}`, origin: 'https://evil.example' },
    })
    expect(rebound.status).toBe(403)
    broker.kill()
    await new Promise((resolve) => broker.once('close', resolve))
    expect(await whoami(['--broker', address], env)).toMatch(
      /^Error: No broker answers at http.* sandkasten mcp broker/,
    )
  })

  /** Another registry, without a sandbox. */
  async function second(): Promise<string> {
    const folder = path.join(place.home, 'second')
    await mkdir(folder)
    return folder
  }

  it('tokens are saved and revoked', async () => {
    const saved = (await run('token', 'web', '--save')).stdout.trim()
    expect((await stat(saved)).mode & 0o777).toBe(0o600)
    expect((await run('token', 'web', '--revoke')).stderr).toMatch(/tokens of “web” revoked/)
    await expect(stat(saved)).rejects.toThrow('ENOENT')
    expect((await run('token', 'none')).stderr).toMatch(/There is no sandbox “none”/)
    expect(await run('broker', '--idle-exit', '0')).toMatchObject({ code: 125 })
  })

  it('install prints and writes, without a token', async () => {
    const args = ['install', 'opencode', '--sandbox', 'web', '--allow-folder', 'docs']
    const printed = await run(...args, '--print')
    const entry = JSON.parse(printed.stdout).mcp.sandbox
    expect(entry).toMatchObject({
      type: 'local',
      environment: { SANDKASTEN_HOME: place.env.SANDKASTEN_HOME },
    })
    expect(entry.command.slice(-5)).toEqual([
      'mcp',
      '--sandbox',
      'web',
      '--allow-folder',
      path.join(place.home, 'docs'),
    ])
    const file = path.join(place.home, 'opencode.json')
    expect(await run(...args)).toMatchObject({ code: 0, stderr: expect.stringContaining(file) })
    expect(await readFile(file, 'utf8')).toBe(printed.stdout)
    expect((await run(...args)).stderr).toContain('already has it')
    expect((await run('install', 'codex', '--provider-sandbox', 'x', '--print')).stdout).toMatch(
      /^\[mcp_servers\.sandbox\]\ncommand = ".*"\nargs = \[.*"--provider-sandbox","x"\]\n/,
    )
    expect((await run('install', 'emacs', '--sandbox', 'web')).stderr).toMatch(
      /Allowed choices are opencode, claude/,
    )
  })

  it('has a test for every command and option', () => {
    expect(everything().filter((what) => !seen.has(what) && !(what in elsewhere))).toEqual([])
    expect(Object.keys(elsewhere).filter((what) => seen.has(what) || !everything().includes(what))).toEqual(
      [],
    )
  })
})
