import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { configOf, type Daemon, startDaemon } from '@sandkasten/daemon'
import type { SandboxTerminal } from '@sandkasten/sdk'
import { LocalProvider } from '@sandkasten/sdk/local'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { main } from '../../src/main.ts'
import { waiting } from '../../src/progress.ts'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
const key = 'sk-test-0123456789abcdef'
let home: string
let daemon: Daemon
let env: Record<string, string>
let id: string

async function sandkasten(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const said = { stdout: '', stderr: '' }
  const note = (where: keyof typeof said) => (text: unknown, done?: unknown) => {
    said[where] += String(text)
    if (typeof done === 'function') done()
    return true
  }
  const line = (where: keyof typeof said) => (text: unknown) => void note(where)(`${text}\n`)
  const spies = [
    vi.spyOn(console, 'log').mockImplementation(line('stdout')),
    vi.spyOn(console, 'error').mockImplementation(line('stderr')),
    vi.spyOn(process.stdout, 'write').mockImplementation(note('stdout')),
    vi.spyOn(process.stderr, 'write').mockImplementation(note('stderr')),
  ]
  try {
    const code = await main([process.execPath, bin, ...args])
    return { code, ...said }
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
}

const json = async (...args: string[]) => JSON.parse((await sandkasten(...args, '--json')).stdout)

beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'sandkasten-cli-work-'))
  daemon = await startDaemon({
    config: configOf({
      listen: '127.0.0.1:0',
      data_dir: path.join(home, 'data'),
      isolator: 'process',
      api_key: key,
      log_level: 'silent',
    }),
  })
  env = { SANDKASTEN_URL: daemon.url, SANDKASTEN_API_KEY: key }
  Object.assign(process.env, env)
  id = (await sandkasten('sessions', 'create')).stdout.trim()
})
afterAll(async () => {
  for (const session of await json('sessions', 'list')) await sandkasten('sessions', 'destroy', session.id)
  for (const name of Object.keys(env)) delete process.env[name]
  await daemon?.close()
  await rm(home, { recursive: true, force: true })
})

describe('sandkasten cp', () => {
  it('copies files and folders in and out', async () => {
    const tree = path.join(home, 'tree')
    await mkdir(path.join(tree, 'sub/empty'), { recursive: true })
    await writeFile(path.join(tree, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
    await writeFile(path.join(tree, 'sub/ä b.bin'), Buffer.alloc(300_000, 1))
    expect(await json('cp', tree, `${id}:`)).toMatchObject({ files: 2 })
    expect(
      (await sandkasten('exec', id, '--', 'ls tree tree/sub; ./tree/run.sh && echo ran')).stdout,
    ).toMatch(/run\.sh\nsub\n[\s\S]*empty\n[\s\S]*ran\n/)
    const back = path.join(home, 'back')
    expect(await json('cp', `${id}:tree`, back)).toMatchObject({ files: 2, bytes: 300_010, skipped: [] })
    expect(await readdir(back)).toEqual(['run.sh', 'sub'])
    expect((await readFile(path.join(back, 'sub/ä b.bin'))).equals(Buffer.alloc(300_000, 1))).toBe(true)
    expect((await stat(path.join(back, 'run.sh'))).mode & 0o777).toBe(0o755)
    // One file, into an existing folder, and under another name.
    await sandkasten('cp', path.join(tree, 'run.sh'), `${id}:tree/sub`)
    expect((await sandkasten('cp', `${id}:tree/sub/run.sh`, path.join(home, 'one'))).stdout).toBe(
      '1 file, 10 B\n',
    )
    expect(await readFile(path.join(home, 'one'), 'utf8')).toBe('#!/bin/sh\n')
  })

  it('creates no symbolic link from a sandbox, and does not write through one', async () => {
    await sandkasten('exec', id, '--', 'mkdir -p evil && ln -sf /etc evil/out && echo x > evil/plain')
    const target = path.join(home, 'evil')
    const outside = path.join(home, 'outside')
    await mkdir(target)
    await writeFile(outside, 'mine')
    await symlink(outside, path.join(target, 'plain'))
    await mkdir(path.join(home, 'into'))
    const copied = await sandkasten('cp', `${id}:evil/plain`, path.join(target, 'plain'))
    expect(copied.code).toBe(0)
    expect(await readFile(outside, 'utf8')).toBe('mine')
    expect(await json('cp', `${id}:evil`, path.join(home, 'into'))).toMatchObject({
      files: 1,
      skipped: ['evil/out'],
    })
    expect(await readdir(path.join(home, 'into/evil'))).toEqual(['plain'])
  })

  it('reports missing arguments', async () => {
    expect(await sandkasten('cp', 'a', 'b')).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('SESSION:path'),
    })
    expect(await sandkasten('cp', `${id}:none`, 'b')).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('none'),
    })
  })
})

describe('sandkasten logs', () => {
  it('shows the output of a command and the events of the session', async () => {
    const api = (body: object) =>
      fetch(`${daemon.url}/v1/sessions/${id}/run`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify(body),
      })
    await api({ cmd: 'sh', args: ['-c', 'echo out; echo err >&2'], exec_id: 'job', detach: true })
    expect(await sandkasten('logs', id, 'job')).toEqual({ code: 0, stdout: 'out\n', stderr: 'err\n' })
    const lines = (await sandkasten('logs', id, 'job', '--json')).stdout.trim().split('\n')
    expect(lines.map((text) => JSON.parse(text).event).sort()).toEqual(['exit', 'stderr', 'stdout'])
    // Events are written some milliseconds after the response.
    await expect.poll(async () => (await sandkasten('logs', id)).stdout).toContain('session.running')
    expect((await sandkasten('logs', 'aaaaaaaaaaaaaaaa')).stderr).toContain('There is no session')
  })
})

describe('sandkasten ports and snapshot', () => {
  it('opens, links and closes a port', async () => {
    const opened = await json('ports', 'open', id, '3000', '--visibility', 'token')
    expect(opened).toMatchObject({ visibility: 'token', token: expect.stringMatching(/^pt-/) })
    expect((await sandkasten('ports', 'open', id, '3000')).stdout).toBe(`${opened.url}\n`)
    expect((await sandkasten('ports', 'list', id)).stdout).toMatch(/^PORT +OPEN TO.*\n3000 +token +no /)
    expect((await sandkasten('ports', 'link', id, '3000', '--path', '/x')).stdout).toContain(
      '/x?sandkasten_token=l1.',
    )
    expect((await sandkasten('ports', 'close', id, '3000')).stdout).toBe('3000 closed\n')
    expect((await sandkasten('ports', 'open', id, '70000')).stderr).toContain('not a port')
  })

  it('saves a disk, starts from it and deletes it', async () => {
    await sandkasten('exec', id, '--', 'echo saved > note')
    const snapshot = (await sandkasten('snapshot', 'create', id, '--name', 'first')).stdout.trim()
    expect(await json('snapshot', 'list', '--session', id)).toMatchObject([{ id: snapshot, name: 'first' }])
    const copy = (await sandkasten('sessions', 'create', '--snapshot', snapshot)).stdout.trim()
    expect((await sandkasten('exec', copy, '--', 'cat note')).stdout).toBe('saved\n')
    expect((await sandkasten('snapshot', 'delete', snapshot)).stdout).toBe(`${snapshot} deleted\n`)
    expect(await json('snapshot', 'list')).toEqual([])
  })

  it('lists what a session did not take over from a snapshot', async () => {
    const origin = (await sandkasten('sessions', 'create', '--env', 'TOKEN=x')).stdout.trim()
    const snapshot = (await sandkasten('snapshot', 'create', origin)).stdout.trim()
    const { stdout, stderr } = await sandkasten('sessions', 'create', '--snapshot', snapshot)
    expect(stdout).toMatch(/^[a-z2-7]{16}\n$/)
    expect(stderr).toContain('note: env: values are not part of a snapshot; pass TOKEN again.')
    await sandkasten('snapshot', 'delete', snapshot)
  })
})

async function atTerminal(args: string[], size: { cols: number; rows: number }) {
  const provider = new LocalProvider({ root: path.join(home, 'outer'), acceptNoIsolation: true })
  const sandbox = await provider.create({})
  const terminal: SandboxTerminal = await sandbox.openTerminal({
    cmd: process.execPath,
    args: [bin, ...args],
    env: { ...env, HOME: home },
    ...size,
  })
  let shown = ''
  const exit = (async () => {
    for await (const event of terminal.output()) {
      if (event.type === 'exit') return event.exitCode
      shown += Buffer.from(event.data).toString()
    }
    return undefined
  })()
  return {
    terminal,
    exit,
    shows: (what: RegExp) => expect.poll(() => shown, { timeout: 20_000, interval: 50 }).toMatch(what),
    close: () => sandbox.destroy(),
  }
}

describe.skipIf(process.platform !== 'linux')('sandkasten shell', () => {
  it('can be resized, left and found again, and returns its exit code', async () => {
    const first = await atTerminal(['shell', id, '--terminal', 'work', '--', 'sh'], { cols: 100, rows: 40 })
    await first.terminal.write('KEPT=yes; echo size: $(stty size)\r')
    await first.shows(/size: 40 100\r/)
    await first.terminal.resize({ cols: 120, rows: 50 })
    // The size arrives asynchronously, so poll for it.
    await first.terminal.write('until [ "$(stty size)" = "50 120" ]; do sleep 0.05; done; echo resi""zed\r')
    await first.shows(/resized\r/)
    await first.terminal.write('\x1d')
    expect(await first.exit).toBe(0)
    await first.shows(
      /detached; the terminal keeps running\. Return with: sandkasten shell \S+ --terminal work/,
    )
    await first.close()
    expect(await json('shell', id, '--list')).toMatchObject([{ terminal_id: 'work', status: 'running' }])

    const second = await atTerminal(['shell', id, '--attach'], { cols: 80, rows: 24 })
    await second.shows(/size: 40 100\r[\s\S]*resized\r/)
    await second.terminal.write('echo kept: $KEPT $(stty size)\r')
    await second.shows(/kept: yes 24 80\r/)
    await second.terminal.write('exit 7\r')
    expect(await second.exit).toBe(7)
    await second.close()
    expect(await sandkasten('shell', id, '--attach')).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('No terminal runs'),
    })
  }, 60_000)
})

describe('for people', () => {
  it('sessions have names, can be stopped and started, and one command takes several', async () => {
    const made = await json('sessions', 'create', '--name', 'by-name', '-e', 'GREETING=hello')
    expect(made).toMatchObject({ name: 'by-name', env_names: ['GREETING'] })
    expect(await sandkasten('exec', 'by-name', '--', 'echo $GREETING > f')).toMatchObject({ code: 0 })
    await sandkasten('cp', 'by-name:f', path.join(home, 'by-name'))
    expect(await readFile(path.join(home, 'by-name'), 'utf8')).toBe('hello\n')
    expect((await sandkasten('sessions', 'stop', 'by-name', 'no-such')).stdout).toBe('by-name stopped\n')
    const refused = await sandkasten('exec', 'by-name', '--', 'true')
    expect(refused.stderr).toMatch(/is stopped[\s\S]*sandkasten sessions start/)
    expect((await sandkasten('sessions', 'start', 'by-name')).stdout).toBe('by-name running\n')
    const both = await sandkasten('sessions', 'destroy', 'no-such', 'by-name')
    expect(both).toMatchObject({ code: 125, stdout: 'by-name destroyed\n' })
    expect(both.stderr).toMatch(/no session with the id or name “no-such”[\s\S]*sandkasten sessions list/)
  })

  it('reports errors as text, without a stack trace', async () => {
    const wrong: Array<[string[], RegExp]> = [
      [['cp', '/no/such', `${id}:x`], /ENOENT: no such file or directory, stat '\/no\/such'/],
      [['keys', 'create', 'k', '--scope', 'exce'], /Allowed choices are read, exec, admin/],
      [['sessions', 'create', '--memory', 'much'], /512m or 2g/],
      [['ports', 'open', id, '0'], /not a port/],
      [['sessoins', 'list'], /Did you mean sessions/],
      [['shell', 'no-such'], /sandkasten sessions list/],
      [['snapshot', 'create', 'no-such'], /sandkasten sessions list/],
      [['logs', 'no-such'], /sandkasten sessions list/],
      [['sessions', 'create', '--snapshot', 'none'], /sandkasten snapshot list/],
      [['status', '--url', 'http://127.0.0.1:1'], /does not respond[\s\S]*sandkasten up/],
    ]
    for (const [args, text] of wrong) {
      const { code, stderr } = await sandkasten(...args)
      expect(stderr, args.join(' ')).toMatch(text)
      expect(stderr).not.toMatch(/\n {4}at |\/v1\//)
      expect(code).toBe(125)
    }
    process.env.SANDKASTEN_API_KEY = 'sk-wrong'
    const { stderr } = await sandkasten('sessions', 'list')
    process.env.SANDKASTEN_API_KEY = key
    expect(stderr).toMatch(/valid API key[\s\S]*SANDKASTEN_API_KEY/)
  })

  it('Ctrl-C ends the command, and the shell accepts the next one', async () => {
    const child = spawn(
      process.execPath,
      ['--conditions=sandkasten-source', bin, 'exec', id, '--', 'echo begun; sleep 600'],
      {
        env: { ...process.env, ...env },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    await once(child.stdout, 'data')
    child.kill('SIGINT')
    await once(child, 'exit')
    expect((await sandkasten('exec', id, '--', 'echo next')).stdout).toBe('next\n')
  })

  it('shows what it waits for, on a terminal only', async () => {
    const out = { isTTY: true, text: '', write: (text: string) => (out.text += text) }
    const { promise, resolve } = Promise.withResolvers<number>()
    const waited = waiting('making it', promise, out as unknown as NodeJS.WriteStream & { fd: 2 })
    await expect.poll(() => out.text).toContain('making it…')
    resolve(7)
    expect(await waited).toBe(7)
    expect(out.text.endsWith('\r\x1b[K')).toBe(true)
    const quiet = { ...out, isTTY: false, text: '' }
    expect(await waiting('x', Promise.resolve(1), quiet as unknown as NodeJS.WriteStream & { fd: 2 })).toBe(1)
    expect(quiet.text).toBe('')
  })
})
