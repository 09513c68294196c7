import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { main } from '../../src/main.ts'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
const home = await mkdtemp(path.join(tmpdir(), 'sandkasten-cli-up-'))
const env = { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home }

/** Runs the command in this process, because starting a process for each is slow. */
async function sandkasten(
  args: string[],
  more: Record<string, string> = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const before = { ...process.env }
  const said = { stdout: '', stderr: '' }
  const spies = [
    vi.spyOn(console, 'log').mockImplementation((text) => {
      said.stdout += `${text}\n`
    }),
    vi.spyOn(console, 'error').mockImplementation((text) => {
      said.stderr += `${text}\n`
    }),
    vi.spyOn(process.stdout, 'write').mockImplementation((text: unknown, done?: unknown) => {
      said.stdout += String(text)
      if (typeof done === 'function') done()
      return true
    }),
  ]
  Object.assign(process.env, env, more)
  try {
    const code = await main([process.execPath, bin, ...args])
    return { code, ...said }
  } finally {
    for (const name of Object.keys({ ...env, ...more }))
      if (before[name] === undefined) delete process.env[name]
    Object.assign(process.env, before)
    for (const spy of spies) spy.mockRestore()
  }
}

function up(args: string[] = []) {
  return spawn(process.execPath, [bin, 'up', '--isolator', 'process', '--listen', '127.0.0.1:0', ...args], {
    env,
    cwd: home,
  })
}

afterAll(() => rm(home, { recursive: true, force: true }))

describe('sandkasten config check', () => {
  it('prints the configuration without secrets, and errors with a hint', async () => {
    const file = path.join(home, 'checked.yaml')
    await writeFile(file, 'api_key: very-secret-key\nsession_ttl_seconds: 60\n')
    const good = await sandkasten(['config', 'check', '-c', file])
    expect(good.code).toBe(0)
    expect(good.stdout).toContain('session_ttl_seconds: 60')
    expect(good.stdout).not.toContain('very-secret-key')
    expect(JSON.parse((await sandkasten(['config', 'check', '-c', file, '--json'])).stdout)).toMatchObject({
      session_ttl_seconds: 60,
    })
    await writeFile(file, 'sesion_ttl_seconds: 60\n')
    const bad = await sandkasten(['config', 'check', '-c', file])
    expect(bad.code).toBe(125)
    expect(bad.stderr).toMatch(/no key “sesion_ttl_seconds”[\s\S]*session_ttl_seconds/)
  })
})

describe('sandkasten up', () => {
  let daemon: ReturnType<typeof up>
  let said = ''
  beforeAll(async () => {
    daemon = up()
    const lines = createInterface(daemon.stdout)
    lines.on('line', (line) => {
      said += `${line}\n`
    })
    await Promise.race([
      new Promise<void>((resolve) => lines.on('line', (line) => line.includes('/exec') && resolve())),
      once(daemon, 'exit').then(() => {
        throw new Error(`the daemon ended: ${said}`)
      }),
    ])
  })
  afterAll(async () => {
    if (daemon.exitCode !== null) return
    daemon.kill('SIGTERM')
    await once(daemon, 'exit')
  })

  it('prints its address, the first key and a curl line that works', async () => {
    expect(said).toMatch(/listens on http:\/\/127\.0\.0\.1:\d+\n/)
    expect(said).toContain('NOT isolated')
    const [line] = /curl .*-d '\{\}'/.exec(said)!
    const { stdout } = await new Promise<{ stdout: string }>((resolve, reject) =>
      execFile('sh', ['-c', line!], (error, stdout) => (error ? reject(error) : resolve({ stdout }))),
    )
    expect(JSON.parse(stdout)).toMatchObject({ status: 'running' })
    await sandkasten(['sessions', 'destroy', JSON.parse(stdout).id])
  })

  it('is found by the other commands', async () => {
    expect((await sandkasten(['status'])).stdout).toMatch(/The daemon is ready/)
    const id = (await sandkasten(['sessions', 'create', '--name', 'cli'])).stdout.trim()
    const list = await sandkasten(['sessions', 'list', '--json'])
    expect(JSON.parse(list.stdout)).toMatchObject([{ id, name: 'cli', status: 'running' }])
    expect((await sandkasten(['sessions', 'get', id])).stdout).toMatch(/^status: +running$/m)
    expect(await sandkasten(['exec', id, '--', 'cd /tmp; echo out; exit 3'])).toMatchObject({
      code: 3,
      stdout: 'out\n',
    })
    expect((await sandkasten(['exec', id, '--json', '--', 'echo', 'a  b'])).stdout).toContain(
      '"output": "a  b\\n"',
    )
    expect((await sandkasten(['sessions', 'destroy', id])).stdout).toBe(`${id} destroyed\n`)
    const missing = await sandkasten(['exec', id, '--', 'true'])
    expect(missing).toMatchObject({ code: 125, stderr: expect.stringContaining('destroyed') })
  })

  it('creates, lists and revokes keys', async () => {
    const key = JSON.parse(
      (await sandkasten(['keys', 'create', 'other', '--scope', 'read', '--json'])).stdout,
    )
    expect(key.scopes).toEqual(['read'])
    const list = await sandkasten(['keys', 'list'])
    expect(list.stdout).toContain('other')
    expect(list.stdout).not.toContain(key.key)
    const refused = await sandkasten(['sessions', 'create'], { SANDKASTEN_API_KEY: key.key })
    expect(refused).toMatchObject({ code: 125, stderr: expect.stringContaining('scope “exec”') })
    expect((await sandkasten(['keys', 'revoke', key.id])).code).toBe(0)
    const revoked = await sandkasten(['status'], { SANDKASTEN_API_KEY: key.key })
    expect(revoked.stderr).toContain('valid API key')
  })

  it('does not start twice in one folder, ends on SIGTERM, and shows its key only once', async () => {
    const second = await sandkasten(['up', '--isolator', 'process', '--listen', '127.0.0.1:0'])
    expect(second).toMatchObject({ code: 125, stderr: expect.stringContaining('Another daemon uses') })
    daemon.kill('SIGTERM')
    const [code] = await once(daemon, 'exit')
    expect(code).toBe(0)
    expect((await sandkasten(['status'])).stderr).toContain('No daemon runs on this machine')
    const again = up(['--json'])
    const [line] = await once(createInterface(again.stdout), 'line')
    expect(JSON.parse(line)).toEqual({
      url: expect.any(String),
      isolation: 'none',
      instance: expect.any(String),
      data_dir: home,
      preview_url: expect.any(String),
    })
    again.kill('SIGINT')
    expect((await once(again, 'exit'))[0]).toBe(0)
  })
})
