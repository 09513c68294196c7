import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inProcess, key, sandkasten, start, testDaemon } from '../helper.ts'
import { recorder } from './recorder.ts'

let at: Awaited<ReturnType<typeof testDaemon>>
let env: Record<string, string>
let id: string
beforeAll(async () => {
  at = await testDaemon()
  env = at.env
  id = (await inProcess(['sessions', 'create', '--name', 'work'], env)).stdout.trim()
})
afterAll(() => at?.close())

describe('the time limit of exec', () => {
  it('ends the command with 124, and reports how to raise it', async () => {
    const asked = await sandkasten(['exec', '--timeout', '1s', id, '--', 'echo begun; sleep 60'], env)
    expect(asked).toMatchObject({ code: 124, stdout: 'begun\n' })
    expect(asked.stderr).toMatch(/ended after 1 s, its time limit\. Raise it with --timeout/)
    const set = await sandkasten(['exec', id, '--', 'sleep 60'], { ...env, SANDKASTEN_EXEC_TIMEOUT: '0.5' })
    expect(set).toMatchObject({ code: 124, stderr: expect.stringContaining('SANDKASTEN_EXEC_TIMEOUT') })
    const json = await sandkasten(['exec', '--json', '--timeout', '1', id, '--', 'echo x; sleep 60'], env)
    expect(json.code).toBe(124)
    expect(JSON.parse(json.stdout)).toMatchObject({ timed_out: true, output: 'x\n' })
    const wrong = await sandkasten(['exec', id, '--', 'true'], { ...env, SANDKASTEN_EXEC_TIMEOUT: 'long' })
    expect(wrong).toMatchObject({ code: 125, stderr: expect.stringContaining('90m') })
    expect((await sandkasten(['exec', '--timeout', '5 min.', id, '--', 'true'], env)).stderr).toContain('30m')
  })

  it('is one hour by default', async () => {
    const asked: unknown[] = []
    const proxy = await recorder(at.daemon.url, (_, url, body) => {
      if (url.endsWith('/exec')) asked.push(JSON.parse(body.toString()).timeout_ms)
    })
    try {
      const there = { SANDKASTEN_URL: proxy.url, SANDKASTEN_API_KEY: key }
      expect((await sandkasten(['exec', id, '--', 'true'], there)).code).toBe(0)
      expect((await sandkasten(['exec', '--timeout', '30m', id, '--', 'true'], there)).code).toBe(0)
      expect(asked).toEqual([3_600_000, 1_800_000])
    } finally {
      proxy.close()
    }
  })

  it('is limited by the daemon, and then the message names the daemon’s setting', async () => {
    const strict = await testDaemon({ defaults: { max_exec_timeout_ms: 1000 } })
    try {
      const there = strict.env
      const session = (await sandkasten(['sessions', 'create'], there)).stdout.trim()
      const ran = await sandkasten(['exec', session, '--', 'sleep 60'], there)
      expect(ran.code).toBe(124)
      expect(ran.stderr).toMatch(/after 1 s[\s\S]*max_exec_timeout_ms[\s\S]*--detach/)
      const more = await sandkasten(['exec', '--timeout', '1h', session, '--', 'true'], there)
      expect(more).toMatchObject({ code: 125, stderr: expect.stringContaining('Lower --timeout') })
    } finally {
      await strict.close()
    }
  })
})

describe('stdin of exec', () => {
  it('reaches the command, and the shell keeps its state', async () => {
    expect(await sandkasten(['exec', id, '--', 'cat'], env, { input: 'hi\n' })).toMatchObject({
      code: 0,
      stdout: 'hi\n',
    })
    const kept = 'read LINE; mkdir -p piped; cd piped; false'
    expect((await sandkasten(['exec', id, '--', kept], env, { input: 'it’s $HOME\nmore' })).code).toBe(1)
    expect((await sandkasten(['exec', id, '--', 'echo "$LINE" $(basename "$PWD"); cd ..'], env)).stdout).toBe(
      'it’s $HOME piped\n',
    )
  })

  it('may be binary and large, and leaves nothing behind', async () => {
    const input = randomBytes(3_000_000)
    const sum = createHash('sha256').update(input).digest('hex')
    const command = 'readlink /proc/self/fd/0 >&2; readlink -f /dev/stdin; sha256sum'
    const ran = await sandkasten(['exec', id, '--', command], env, { input })
    expect(ran.stdout).toContain(sum)
    const pipe = /(\/\S+)\/stdin/.exec(ran.stdout)![1]!
    await expect.poll(() => existsSync(pipe)).toBe(false)
    const listed = await sandkasten(['commands', 'list', id], env)
    expect(listed.stdout).not.toContain('cli-stdin-')
  })

  it('may stay unread or open', async () => {
    expect((await sandkasten(['exec', id, '--', 'true'], env, { input: randomBytes(1_000_000) })).code).toBe(
      0,
    )
    const open = start(['exec', id, '--', 'head -1'], env, { stdio: ['pipe', 'pipe', 'inherit'] })
    open.stdin!.write('first\n')
    const [text] = await once(open.stdout!.setEncoding('utf8'), 'data')
    expect(text).toBe('first\n')
    expect((await once(open, 'exit'))[0]).toBe(0)
    const ignored = ['exec', '--no-stdin', id, '--', 'cat; echo end']
    expect((await sandkasten(ignored, env, { input: 'x' })).stdout).toBe('end\n')
  })
})

describe('exec', () => {
  it('with --detach starts a command that can be listed, read, written to and ended', async () => {
    await sandkasten(['exec', id, '--', 'mkdir -p sub && cd sub'], env)
    const job = (await sandkasten(['exec', '-d', id, '--', 'pwd; sleep 600'], env)).stdout.trim()
    expect((await sandkasten(['commands', 'list', id], env)).stdout).toMatch(
      new RegExp(`^${job} +running +(now|\\d+ s ago) +– +sh -c 'pwd; sleep 600'$`, 'm'),
    )
    expect((await sandkasten(['commands', 'kill', id, job, '-s', 'kill'], env)).stdout).toBe(
      `${job} signalled\n`,
    )
    expect((await sandkasten(['logs', id, job], env)).stdout).toMatch(/\/sub\n$/)
    const fed = ['exec', '-d', '--stdin', '--id', 'fed', id, '--', 'cat']
    expect((await sandkasten(fed, env)).stdout).toBe('fed\n')
    await sandkasten(['commands', 'write', '--eof', id, 'fed'], env, { input: 'some input' })
    expect((await sandkasten(['logs', id, 'fed'], env)).stdout).toBe('some input')
    expect((await sandkasten(['commands', 'get', '--wait', '5s', id, 'fed'], env)).stdout).toMatch(
      /status: +exit 0/,
    )
    await sandkasten(['exec', id, '--', 'cd ..'], env)
  })

  it('exits with 130 on Ctrl-C and ends the command', async () => {
    const child = start(['exec', id, '--', 'echo begun; sleep 600'], env, {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    await once(child.stdout!, 'data')
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([130, null])
    expect((await sandkasten(['exec', id, '--', 'echo next'], env)).stdout).toBe('next\n')
  })

  it('names the command that it waits for when the shell is busy', async () => {
    const first = start(['exec', id, '--', 'echo begun; sleep 600'], env, {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    await once(first.stdout!, 'data')
    const second = start(['exec', id, '--', 'echo mine'], env, { stdio: ['ignore', 'pipe', 'pipe'] })
    const [said] = await once(second.stderr!.setEncoding('utf8'), 'data')
    expect(said).toMatch(/waiting: the shell “main” runs “echo begun; sleep 600” \(\S+\), started \d+ s ago/)
    expect(said).toContain('--shell')
    expect((await sandkasten(['shells', 'list', id], env)).stdout).toMatch(
      /^main .* sleep 600 +\d+ s ago +1$/m,
    )
    expect((await sandkasten(['exec', '--shell', 'beside', id, '--', 'echo beside'], env)).stdout).toBe(
      'beside\n',
    )
    first.kill('SIGINT')
    const [text] = await once(second.stdout!.setEncoding('utf8'), 'data')
    expect(text).toBe('mine\n')
    expect((await once(second, 'exit'))[0]).toBe(0)
    expect((await sandkasten(['exec', id, '--', 'sleep 2'], env)).stderr).toBe('')
  })
})

describe('cp with -', () => {
  it('reads stdin and writes stdout, byte for byte', async () => {
    const bytes = randomBytes(300_000)
    expect(await sandkasten(['cp', '-', `${id}:from-stdin`], env, { input: bytes })).toMatchObject({
      code: 0,
      stdout: '1 file, 293.0 KiB\n',
    })
    const child = start(['cp', `${id}:from-stdin`, '-'], env, { stdio: ['ignore', 'pipe', 'pipe'] })
    const chunks: Buffer[] = []
    child.stdout!.on('data', (chunk) => chunks.push(chunk))
    await once(child, 'close')
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
    expect(existsSync('-')).toBe(false)
    expect((await sandkasten(['cp', `${id}:.`, '-'], env)).stderr).toContain('files pack')
  })

  it('leaves no partial file behind when it is interrupted', async () => {
    const folder = path.join(at.home, 'interrupted')
    await mkdir(folder)
    await sandkasten(['exec', id, '--', 'truncate -s 100G endless'], env)
    const child = start(['cp', `${id}:endless`, path.join(folder, 'file')], env)
    await expect.poll(() => readdir(folder)).not.toEqual([])
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([130, null])
    expect(await readdir(folder)).toEqual([])
  })
})

describe.skipIf(process.platform !== 'linux')('a refused or interrupted upload', () => {
  it('ends immediately, however much is left to send', async () => {
    const big = path.join(at.home, 'big')
    await writeFile(big, '')
    await truncate(big, 500e9)
    const child = start(['cp', big, `${id}:big`], env, { stdio: 'ignore' })
    const bytesRead = async () =>
      Number(/rchar: (\d+)/.exec(await readFile(`/proc/${child.pid}/io`, 'utf8'))![1])
    await expect.poll(bytesRead).toBeGreaterThan(100_000_000)
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([130, null])
    expect((await sandkasten(['cp', big, `${id}:../../outside`], env)).code).toBe(125)
    // A pipe that stays open.
    const open = start(['files', 'write', id, '../../outside'], env, { stdio: ['pipe', 'ignore', 'ignore'] })
    open.stdin!.on('error', () => {})
    open.stdin!.write('begun')
    expect((await once(open, 'exit'))[0]).toBe(125)
  })
})

describe('names', () => {
  it('of an ended session report why it ended, like its id', async () => {
    const short = (await inProcess(['sessions', 'create', '--name', 'short'], env)).stdout.trim()
    await inProcess(['sessions', 'destroy', 'short'], env)
    for (const name of ['short', short]) {
      const ran = await inProcess(['exec', '--no-stdin', name, '--', 'true'], env)
      expect(ran).toMatchObject({ code: 125, stderr: expect.stringMatching(/is destroyed \(.*\)/) })
    }
    expect((await inProcess(['sessions', 'get', 'short'], env)).stdout).toMatch(/^status: +destroyed$/m)
    const again = (await inProcess(['sessions', 'create', '--name', 'short'], env)).stdout.trim()
    expect(JSON.parse((await inProcess(['sessions', 'get', 'short', '--json'], env)).stdout).id).toBe(again)
  })

  it('work for snapshots if they are unique', async () => {
    await writeFile(path.join(at.home, 'note'), 'saved')
    // A new session, because the first one has files that would take long to save.
    const id = (await inProcess(['sessions', 'create'], env)).stdout.trim()
    await inProcess(['cp', path.join(at.home, 'note'), `${id}:note`], env)
    const first = (await inProcess(['snapshot', 'create', id, '--name', 'disk'], env)).stdout.trim()
    const made = (await inProcess(['sessions', 'create', '--snapshot', 'disk'], env)).stdout.trim()
    await inProcess(['cp', `${made}:note`, path.join(at.home, 'back')], env)
    expect(await readFile(path.join(at.home, 'back'), 'utf8')).toBe('saved')
    const second = (await inProcess(['snapshot', 'create', id, '--name', 'disk'], env)).stdout.trim()
    const both = await inProcess(['sessions', 'create', '--snapshot', 'disk'], env)
    expect(both.code).toBe(125)
    for (const snapshot of [first, second]) expect(both.stderr).toContain(snapshot)
    expect((await inProcess(['snapshot', 'delete', first], env)).code).toBe(0)
    expect((await inProcess(['snapshot', 'delete', 'disk'], env)).stdout).toBe('disk deleted\n')
  })
})
