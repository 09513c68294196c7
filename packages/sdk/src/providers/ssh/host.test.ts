import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keepAlive } from '../../resilience/index.ts'
import { leftoversOf, sshdProgram, startSshd, type TestSshd } from './test-helper.ts'

const asRoot = process.getuid?.() === 0
// Start-up files may print text that resembles a response; the client must ignore it.
const noise = `printf 'motd\\nstarted 1 0\\nx 1 0 - 0 0\\n'; printf 'to stderr' >&2; alias cat=false; printf 'no newline'\n`

describe.skipIf(!sshdProgram)('a host', () => {
  let sshd: TestSshd
  beforeAll(async () => {
    sshd = await startSshd({ ordinary: asRoot, bashrc: noise })
  })
  afterAll(() => sshd[Symbol.asyncDispose]())

  it('works when start-up files print text', async () => {
    const sandbox = await sshd.provider().create()
    expect((await sandbox.runCommand({ cmd: 'echo', args: ['clean'] })).stdout).toBe('clean\n')
    const shell = await sandbox.openShell()
    expect((await shell.exec('echo in a shell')).output).toBe('in a shell\n')
    await sandbox.destroy()
  })

  it('reports SFTP that the output of start-up files breaks', async (context) => {
    if (!asRoot) return context.skip('creating an account needs root')
    await using spoilt = await startSshd({
      ordinary: true,
      bashrc: noise,
      config: ['Subsystem sftp /usr/lib/openssh/sftp-server'],
    })
    await expect(spoilt.provider({ connectTimeoutMs: 5000 }).create()).rejects.toMatchObject({
      code: 'provider_error',
      hint: expect.stringContaining('.bashrc'),
    })
  })

  it('loses the connection: the program continues, is found again, and ran once', async () => {
    const provider = sshd.provider()
    const sandbox = await provider.create()
    const script =
      'echo run >> runs; echo before; while ! test -e go; do sleep 0.05; done; echo after; exit 4'
    const process = await sandbox.spawn({ cmd: 'sh', args: ['-c', script], execId: 'job' })
    const reader = process.output()[Symbol.asyncIterator]()
    const first = await reader.next()
    expect(Buffer.from((first.value as { data: Uint8Array }).data).toString()).toBe('before\n')
    const running = sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo once >> commands; exec sleep 1000'] })
    await expect.poll(() => sandbox.files.exists('commands')).toBe(true)
    const cutOff = [reader.next(), running].map((one) =>
      one.then(
        () => 'went on',
        (error) => error.code,
      ),
    )
    expect(sshd.cut()).toBeGreaterThan(0)
    expect(await Promise.all(cutOff)).toEqual(['connection_lost', 'connection_lost'])

    // The next call reconnects.
    const found = await sandbox.getProcess('job')
    expect((await found.status()).running).toBe(true)
    await sandbox.files.writeFile('go', '')
    const events = []
    for await (const event of found.output({ after: first.value!.seq })) events.push(event)
    expect(
      events.map((event) => (event.type === 'exit' ? event.exitCode : Buffer.from(event.data).toString())),
    ).toEqual(['after\n', 4])
    expect(await sandbox.files.readFile('runs', 'utf8')).toBe('run\n')
    expect(await sandbox.files.readFile('commands', 'utf8')).toBe('once\n')
    // The same execId does not start a second program.
    const again = await sandbox.spawn({ cmd: 'sh', args: ['-c', script], execId: 'job' })
    expect((await again.wait()).exitCode).toBe(4)
    expect(await sandbox.files.readFile('runs', 'utf8')).toBe('run\n')
    await sandbox.destroy()
  })

  it('loses the connection during a write: connection_lost, the old content, no partial file', async () => {
    const sandbox = await sshd.provider().create()
    await sandbox.files.writeFile('file', 'old')
    const half = (async function* () {
      yield new Uint8Array(100_000)
      sshd.cut()
      yield new Uint8Array(100_000)
    })()
    await expect(sandbox.files.writeFile('file', half)).rejects.toMatchObject({ code: 'connection_lost' })
    expect(await sandbox.files.readFile('file', 'utf8')).toBe('old')
    expect(await sandbox.files.readdir('.')).toEqual(['file'])
    await sandbox.destroy()
  })

  it('loses the connection: a shell, its variables and its running command are found again', async () => {
    const provider = sshd.provider()
    const sandbox = await provider.create()
    const shell = await sandbox.openShell({ name: 'main' })
    await shell.exec('KEPT=yes')
    const running = shell
      .exec('echo begun; while ! test -e go; do sleep 0.05; done; echo done', { execId: 'the command' })
      .catch((error) => error.code)
    await expect
      .poll(() =>
        sandbox.files
          .exists('.')
          .then(() =>
            readdirSync(path.join(sandbox.workdir, '..', 'run')).some((name) => name.startsWith('p-.k-')),
          ),
      )
      .toBe(true)
    sshd.cut()
    expect(await running).toBe('connection_lost')
    const other = await sshd.provider().get(sandbox.id)
    const same = await other.openShell({ name: 'main' })
    await other.files.writeFile('go', '')
    expect((await same.attach!('the command')).output).toBe('begun\ndone\n')
    expect((await same.exec('echo $KEPT')).output).toBe('yes\n')
    await sandbox.destroy()
  })

  it('serves two clients at once: one sandbox for a name, and both see a stop', async () => {
    const [one, two] = [sshd.provider(), sshd.provider()]
    const [a, b] = await Promise.all([one, two].map((provider) => provider.getOrCreate({ name: 'shared' })))
    expect(a!.id).toBe(b!.id)
    await a!.files.writeFile('note', 'from a')
    expect(await b!.files.readFile('note', 'utf8')).toBe('from a')
    const process = await b!.spawn({ cmd: 'sleep', args: ['1000'], detached: true })
    await a!.stop()
    await expect(b!.runCommand({ cmd: 'true' })).rejects.toMatchObject({ code: 'not_running' })
    await expect(process.wait()).rejects.toMatchObject({ code: 'not_running' })
    expect(
      leftoversOf(path.join(sshd.home, 'sandkasten'))(a!.sandboxId).filter((line) =>
        line.startsWith('/proc'),
      ),
    ).toEqual([])
    await a!.start()
    await expect(b!.files.readFile('note')).rejects.toMatchObject({ code: 'interrupted' })
    expect(await two.destroy(a!.id)).toBe(true)
    expect(await one.destroy(a!.id)).toBe(false)
  })

  it('ends an expired sandbox without a connected client', async () => {
    const provider = sshd.provider()
    const sandbox = await provider.create({ lifetimeMs: 2000 })
    await sandbox.spawn({ cmd: 'sh', args: ['-c', 'setsid sleep 1000 & sleep 1000'], detached: true })
    await provider.close()
    const left = leftoversOf(path.join(sshd.home, 'sandkasten'))
    await expect.poll(() => left(sandbox.sandboxId).filter((line) => line.startsWith('/proc'))).toEqual([])
    expect((await sshd.provider().list()).find(({ id }) => id === sandbox.id)?.status).toBe('stopped')
    await sshd.provider().destroy(sandbox.id)
  })

  it('keeps secrets out of the process list and of files that other accounts can read', async () => {
    const sandbox = await sshd.provider().create({ envVars: { SECRET_A: 'sk-at-create' } })
    const process = await sandbox.spawn({
      cmd: 'sh',
      args: ['-c', 'echo "$SECRET_A $SECRET_B"; sleep 1000'],
      env: { SECRET_B: 'sk-at-spawn' },
    })
    const first = await process.output()[Symbol.asyncIterator]().next()
    expect(Buffer.from((first.value as { data: Uint8Array }).data).toString()).toBe(
      'sk-at-create sk-at-spawn\n',
    )
    const { stdout } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'ps -ww -o args -u "$(id -u)"'] })
    expect(stdout).toContain('supervise')
    expect(stdout).not.toContain('sk-at')
    const kept = await sandbox.runCommand({ cmd: 'grep', args: ['-rl', 'sk-at', '../run'] })
    // Only the program's own output is kept.
    expect(
      kept.stdout
        .trim()
        .split('\n')
        .map((file) => path.basename(file)),
    ).toEqual(['o.0'])
    const open = await sandbox.runCommand({
      cmd: 'sh',
      args: ['-c', `find .. -path ../work -prune -o -perm /077 -type d -print; stat -c %a ..`],
    })
    expect(open.stdout.trim()).toBe('700')
    await sandbox.destroy()
  })

  it('forwards a port to a program that listens only on the host’s loopback, and fails where no program listens', async () => {
    const sandbox = await sshd.provider().create()
    const server = `import http.server,socketserver\ns=socketserver.TCPServer(('127.0.0.1',0),http.server.SimpleHTTPRequestHandler)\nprint(s.server_address[1],flush=True)\ns.serve_forever()`
    await sandbox.files.writeFile('hello.txt', 'from the host')
    const process = await sandbox.spawn({ cmd: 'python3', args: ['-c', server], detached: true })
    const first = await process.output()[Symbol.asyncIterator]().next()
    const port = Number(Buffer.from((first.value as { data: Uint8Array }).data).toString())
    const url = await sandbox.getUrl(port)
    expect(await (await fetch(`${url}/hello.txt`)).text()).toBe('from the host')
    await process.kill('SIGKILL')
    await process.wait()
    await expect(fetch(`${url}/hello.txt`)).rejects.toThrow()
    await sandbox.destroy()
    await expect(fetch(url)).rejects.toThrow()
  })

  it('extends a lifetime up to the lease, and not further', async () => {
    const sandbox = await sshd.provider().create({ lifetimeMs: 60_000 })
    const end = async () => (await sandbox.info()).expiresAt!.getTime()
    const before = await end()
    const failures: unknown[] = []
    const heart = keepAlive(sandbox, {
      leaseMs: 600_000,
      everyMs: 100,
      onError: (error) => failures.push(error),
    })
    await heart.beat()
    const first = await end()
    expect(first - before).toBeGreaterThan(480_000)
    await expect.poll(end).toBeGreaterThan(first)
    expect((await end()) - Date.now()).toBeLessThan(630_000)
    expect(failures).toEqual([])
    await sandbox.stop()
    expect(await heart.ended).toMatchObject({ reason: 'stopped' })
    await sandbox.destroy()
  })

  it('leaves nothing behind when a name is taken, and lists sandboxes with labels', async () => {
    const provider = sshd.provider()
    const sandbox = await provider.create({
      name: 'it’s “odd” / ü',
      labels: { team: 'a b', quote: `'"$(id)` },
      label: 'for people',
    })
    await expect(provider.create({ name: 'it’s “odd” / ü' })).rejects.toMatchObject({ code: 'conflict' })
    const [info] = await provider.list({ labels: { quote: `'"$(id)` } })
    expect([info?.name, info?.label, info?.id]).toEqual(['it’s “odd” / ü', 'for people', sandbox.id])
    await sandbox.destroy()
    const root = path.join(sshd.home, 'sandkasten')
    expect([readdirSync(path.join(root, 'sandboxes')), readdirSync(path.join(root, 'names'))]).toEqual([
      [],
      [],
    ])
  })

  it('removes leftovers of interrupted creates and destroys, and keeps those in progress', async () => {
    await sshd.provider().list()
    const root = path.join(sshd.home, 'sandkasten')
    const at = (name: string) => path.join(root, 'sandboxes', name)
    const startOf = (pid: number) =>
      readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')[19]
    const [mine, other] = [`${process.pid}-${startOf(process.pid)}`, `${process.pid}-1`]
    // The process id is the same, but the start time differs.
    const kept = [`.new-aaaaaaaaaaaaaaaa-${mine}`, `.gone-bbbbbbbbbbbbbbbb-${mine}`]
    const left = [`.new-cccccccccccccccc-${other}`, `.gone-dddddddddddddddd-${other}`]
    for (const name of [...kept, ...left]) mkdirSync(path.join(at(name), 'work'), { recursive: true })
    for (const name of ['.aaaaaaaaaaaaaaaa', '.cccccccccccccccc'])
      writeFileSync(path.join(root, 'names', name), '')
    execFileSync('chown', [
      '-R',
      '--reference',
      root,
      ...[...kept, ...left].map(at),
      path.join(root, 'names'),
    ])
    expect(await sshd.provider().healthCheck()).toBe(true)
    expect(readdirSync(path.join(root, 'sandboxes')).sort()).toEqual(kept.sort())
    expect(readdirSync(path.join(root, 'names'))).toEqual(['.aaaaaaaaaaaaaaaa'])
    for (const name of kept) rmSync(at(name), { recursive: true })
    rmSync(path.join(root, 'names', '.aaaaaaaaaaaaaaaa'))
  })

  it('refuses malformed ids and arguments', async () => {
    writeFileSync(path.join(sshd.folder, 'x'), '')
    await expect(sshd.provider().get('aaaaaaaaaaaaaaaa')).rejects.toMatchObject({ code: 'not_found' })
    await expect(sshd.provider().get('$(id)')).rejects.toMatchObject({ code: 'not_found' })
  })
})
