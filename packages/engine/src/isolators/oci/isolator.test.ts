import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Bench, createBench, open, readOr, reasonToSkip } from './testing/bench.ts'

const reason = await reasonToSkip()

/** Polls a condition that holds soon. The timeout allows for a busy machine. */
const soon = <T>(check: () => T) => vi.waitFor(check, 20_000)
let bench: Bench

beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason === undefined) bench = await createBench()
}, 600_000)
afterEach(async () => {
  await bench?.clear()
  expect(bench?.leftovers() ?? []).toEqual([])
})
afterAll(() => bench?.[Symbol.asyncDispose]())

describe('lifecycle', () => {
  it('a sandbox starts, runs a command as its user, is killed, and leaves only its disk', async () => {
    const box = await bench.start({ env: { GREETING: 'hello' } })
    expect(await box.sh('id -u; pwd; echo "$GREETING $HOME"; touch kept; echo $$')).toMatchObject({
      out: expect.stringMatching(/^1000\n\/workspace\nhello \/home\/sandbox\n\d+$/),
      code: 0,
    })
    const end = await box.sandbox.kill()
    expect(end).toMatchObject({ signal: 9, killed: true, oom: false, unwitnessed: false })
    expect(await box.sandbox.ended).toEqual(end)
    expect(await bench.isolator.lastEnd(box.spec)).toEqual(end)
    expect(bench.leftovers()).toEqual([expect.stringMatching(/^ids /)])
    await expect(box.sandbox.connect()).rejects.toSatisfy((error) => SandboxError.is(error, 'not_running'))

    const again = await open(box.spec, await bench.isolator.start(box.spec))
    expect((await again.sh('ls /workspace; id -u')).out).toBe('kept\n1000')
    expect(again.firstId).toBe(box.firstId)
    expect(await bench.isolator.remove(box.spec)).toBe(true)
    expect(existsSync(box.spec.folder)).toBe(false)
    expect(bench.leftovers()).toEqual([])
    expect(await bench.isolator.remove(box.spec)).toBe(false)
  })

  it('another process finds the sandbox and gets the same exit report', async () => {
    const box = await bench.start()
    const other = await bench.another().attach(box.spec)
    expect(other).toBeDefined()
    const same = await open(box.spec, other!)
    expect(same.client.connection.welcome.boot).toBe(box.client.connection.welcome.boot)
    const killed = await other!.kill()
    expect(await box.sandbox.ended).toEqual(killed)
    expect(await bench.another().attach(box.spec)).toBeUndefined()
  })

  it('a sandbox keeps running when the process that started it is killed', async () => {
    const spec = bench.spec()
    const module = new URL('../index.ts', import.meta.url).href
    const script = `
      import { OciIsolator } from ${JSON.stringify(module)}
      await new OciIsolator(${JSON.stringify(bench.options)}).start(${JSON.stringify(spec)})
      console.log('started')
      setInterval(() => {}, 1000)`
    const args = ['--conditions=sandkasten-source', '--input-type=module-typescript', '-e', script]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const box = await open(spec, (await bench.isolator.attach(spec))!)
    expect((await box.sh('echo alive')).out).toBe('alive')
    expect((await box.sandbox.kill()).killed).toBe(true)
    await bench.isolator.remove(spec)
    expect(bench.leftovers()).toEqual([])
  })

  it('a sandbox ends with its runner and reports the runner’s exit status', async () => {
    const box = await bench.start()
    process.kill(box.pids.runner, 'SIGTERM')
    expect(await box.sandbox.ended).toMatchObject({ exitCode: 0, killed: false, oom: false })
    const second = await bench.start()
    process.kill(second.pids.runner, 'SIGKILL')
    expect(await second.sandbox.ended).toMatchObject({ signal: 9, killed: false, oom: false })
  })

  it('a sandbox ends with its shim, whichever signal kills the shim', async () => {
    const box = await bench.start()
    await box.sh('for i in 1 2 3; do (setsid sleep 1000 &) ; done')
    process.kill(box.pids.shim, 'SIGKILL')
    expect(await box.sandbox.ended).toMatchObject({ unwitnessed: true, killed: false })
    expect((await box.sandbox.ended).exitCode).toBeUndefined()
    expect(bench.leftovers()).toEqual([expect.stringMatching(/^ids /)])
  })

  it('the next process cleans up when shim and engine died together', async () => {
    const box = await bench.start()
    process.kill(box.pids.shim, 'SIGKILL')
    expect(await bench.another().attach(box.spec)).toBeUndefined()
    const again = await bench.another().start(box.spec)
    expect((await (await open(box.spec, again)).sh('echo again')).out).toBe('again')
    await again.kill()
  })

  it('processes with double forks and new sessions do not survive their sandbox', async () => {
    const box = await bench.start()
    const script =
      'for i in 1 2 3 4 5; do setsid sh -c "setsid sh -c \\"trap : TERM HUP INT; while :; do sleep 1; done\\" & " & done; sleep 0.3; ls /proc | grep -c "^[0-9]"'
    expect(Number((await box.sh(script)).out)).toBeGreaterThan(6)
    await box.sandbox.kill()
    expect(bench.leftovers()).toEqual([expect.stringMatching(/^ids /)])
  })

  it('a running sandbox is not started twice', async () => {
    const box = await bench.start()
    await expect(bench.another().start(box.spec)).rejects.toSatisfy((error) =>
      SandboxError.is(error, 'conflict'),
    )
    expect((await box.sh('echo unharmed')).out).toBe('unharmed')
  })
})

describe('a failed start leaves nothing behind', () => {
  it.each([
    ['no seccomp filter', 'delete config.annotations', /Seccomp/],
    ['new privileges', 'config.process.noNewPrivileges = false', /NoNewPrivs/],
    [
      'more capabilities',
      'for (const set of ["bounding", "permitted", "effective"]) config.process.capabilities[set].push("CAP_SYS_ADMIN")',
      /Cap/,
    ],
    [
      'the host’s ipc',
      'config.linux.namespaces = config.linux.namespaces.filter((n) => n.type !== "ipc")',
      /ipc namespace of the shim/,
    ],
    [
      'the host’s cgroups',
      'config.linux.namespaces = config.linux.namespaces.filter((n) => n.type !== "cgroup")',
      /cgroup namespace of the shim/,
    ],
    [
      'a runner that does not start',
      'config.process.args = ["/usr/bin/false"]',
      /runner ended before it answered/,
    ],
    ['a missing program', 'config.process.args = ["/no/such"]', /runtime failed/],
  ])('a runtime that gives %s', async (_, change, message) => {
    // This runtime interprets config.json differently, as another version might.
    const spec = bench.spec()
    // Each case has its own program, because the prepared shim may still be starting the one of the last case.
    const wrapper = join(bench.folder, `runtime-${spec.sandboxId}`)
    const editor = `const fs = require("node:fs"); const i = process.argv.indexOf("--bundle"); const file = process.argv[i + 1] + "/config.json"; const config = JSON.parse(fs.readFileSync(file, "utf8")); ${change}; fs.writeFileSync(file, JSON.stringify(config))`
    writeFileSync(`${wrapper}.cjs`, editor)
    writeFileSync(wrapper, `#!/bin/sh\n${process.execPath} ${wrapper}.cjs "$@" && exec crun "$@"\n`)
    chmodSync(wrapper, 0o755)
    await expect(bench.another({ runtime: wrapper, runtimeKind: 'crun' }).start(spec)).rejects.toThrow(
      message,
    )
    expect(existsSync(spec.folder)).toBe(false)
    expect(bench.leftovers()).toEqual([])
  })

  it('a runtime that hangs', async () => {
    const wrapper = join(bench.folder, 'hang')
    writeFileSync(wrapper, '#!/bin/sh\n(setsid sleep 1000 &)\nsleep 1000\n')
    chmodSync(wrapper, 0o755)
    await expect(
      bench.another({ runtime: wrapper, runtimeKind: 'crun', readyTimeoutMs: 300 }).start(bench.spec()),
    ).rejects.toThrow(/no answer/)
    expect(bench.leftovers()).toEqual([])
  })

  it('a limit that cannot be set', async () => {
    await expect(bench.isolator.start(bench.spec({ limits: { pids: 2 ** 40 } }))).rejects.toThrow(/pids.max/)
    expect(bench.leftovers()).toEqual([])
  })

  it('a failed start keeps the disk of an earlier incarnation', async () => {
    const box = await bench.start()
    await box.sh('echo precious > /workspace/file')
    await box.sandbox.kill()
    await expect(
      bench.another({ runtime: '/usr/bin/false', runtimeKind: 'crun' }).start(box.spec),
    ).rejects.toThrow(/runtime failed/)
    const again = await open(box.spec, await bench.isolator.start(box.spec))
    expect((await again.sh('cat /workspace/file')).out).toBe('precious')
  })
})

describe('limits', () => {
  it('memory: a process over the limit is killed, and the kernel’s count shows it', async () => {
    const box = await bench.start({ limits: { memoryBytes: 64 * 1024 * 1024 } })
    // The program reports its progress and stops by itself, so a missing limit does not exhaust the machine's memory.
    const bomb = await box.sh(
      'exec perl -e \'$| = 1; my @a; for (1..512) { push @a, "x" x 1048576; print "$_\\n" }\'',
    )
    expect(bomb.signal).toBe('SIGKILL')
    expect(Number(bomb.out.split('\n').at(-1))).toBeLessThan(64)
    expect((await box.sandbox.stats()).oomKills).toBe(1)
    expect((await box.sh('echo still here')).out).toBe('still here')
    expect(await box.sandbox.kill()).toMatchObject({ oom: true, oomKills: 1 })
  })

  it('memory: tmpfs counts as memory and has its own size limit', async () => {
    const box = await bench.start({ limits: { tmpBytes: 1024 * 1024, shmBytes: 65536 } })
    expect((await box.sh('head -c 2000000 /dev/zero > /tmp/big')).err).toContain('No space left')
    expect((await box.sh('head -c 200000 /dev/zero > /dev/shm/big')).err).toContain('No space left')
  })

  it('processes: a fork bomb stops at the limit, does not affect another sandbox, and dies with its own', async () => {
    const [bomber, neighbour] = await Promise.all([bench.start({ limits: { pids: 40 } }), bench.start()])
    // A second limit protects the test machine if ours fails.
    const net = { limits: { processes: 3000 } }
    const running = bomber.sh('bomb() { bomb | bomb & }; bomb; sleep 2; echo end', net).catch(() => {})
    await sleep(500)
    expect((await neighbour.sh('echo fine')).out).toBe('fine')
    const stats = await bomber.sandbox.stats()
    expect(stats.pids).toBeLessThanOrEqual(40)
    expect(stats.pidsRefused).toBeGreaterThan(0)
    await bomber.sandbox.kill()
    await running
    expect((await neighbour.sh('echo fine')).out).toBe('fine')
  })

  it('processor: a busy loop gets no more than its share', async () => {
    const box = await bench.start({ limits: { cpus: 0.2 } })
    const before = (await box.sandbox.stats()).cpuUsec!
    const started = performance.now()
    await box.sh('timeout 1 sh -c "while :; do :; done"')
    const [used, wall] = [(await box.sandbox.stats()).cpuUsec! - before, (performance.now() - started) * 1000]
    expect(used / wall).toBeLessThan(0.35)
    expect((await box.sandbox.stats()).throttledUsec).toBeGreaterThan(0)
  })

  it('open files: a process that opens too many files reaches its limit', async () => {
    const box = await bench.start({ limits: { openFiles: 1024 } })
    const script =
      'perl -e \'my @f; while (open(my $f, "<", "/dev/null")) { push @f, $f } print scalar(@f), " $!\\n"\'; ulimit -n; ulimit -c'
    expect((await box.sh(script)).out).toMatch(/^10\d\d Too many open files\n1024\n0$/)
  })

  it('disk: writing too much fills the sandbox’s limit and not the host, and the disk survives a stop', async () => {
    const box = await bench.start({ limits: { diskBytes: 32 * 1024 * 1024 } })
    expect((await box.sh('df -k --output=size /workspace | tail -n 1')).out).toMatch(/^ *(2|3)\d{4}$/)
    const bomb = await box.sh('echo kept > kept; head -c 64M /dev/urandom > bomb; echo $?; stat -c %s bomb')
    expect(bomb.err).toMatch(/No space left on device/)
    const [status, size] = bomb.out.split('\n').map(Number)
    expect(status).not.toBe(0)
    expect(size).toBeLessThan(32 * 1024 * 1024)
    // The sparse file uses only as much of the host's disk as was written.
    const file = join(box.spec.folder, 'disk.ext4')
    expect(statSync(file).blocks * 512).toBeLessThanOrEqual(33 * 1024 * 1024)
    expect((await box.sh('rm bomb; echo more > more; cat more')).out).toBe('more')
    // The limit includes inodes.
    const files = 'i=0; while true > "f$i"; do i=$((i+1)); done 2>/dev/null; echo full; rm -f f*'
    expect((await box.sh(files)).out).toBe('full')
    await box.sandbox.kill()
    const again = await open(box.spec, await bench.isolator.start(box.spec))
    expect((await again.sh('cat kept more; id -u; stat -c %u kept')).out).toBe('kept\nmore\n1000\n1000')
    const devices = readdirSync('/sys/block').filter((name) =>
      readOr(`/sys/block/${name}/loop/backing_file`)?.includes(bench.folder),
    )
    expect(devices).toHaveLength(1)
    await bench.isolator.remove(box.spec)
    await soon(() =>
      expect(readOr(`/sys/block/${devices[0]}/loop/backing_file`) ?? '').not.toContain(bench.folder),
    )
    expect(existsSync(file)).toBe(false)
  })
})

describe('the prepared shim', () => {
  /** Shims of this bench that have no sandbox yet. */
  const spares = () =>
    readdirSync('/proc')
      .filter((pid) => readOr(`/proc/${pid}/comm`)?.trim() === 'shim-spare')
      .filter((pid) => !/^State:\s+[ZX]/m.test(readOr(`/proc/${pid}/status`) ?? 'State: X'))
      .filter((pid) => bench.groups().some((name) => name.startsWith(`${pid}-`)))
      .map(Number)

  it('is removed by close() and prepared again by the next start', async () => {
    await bench.closeAll()
    const isolator = bench.another()
    for (let life = 0; life < 2; life++) {
      const spec = bench.spec()
      const sandbox = await isolator.start(spec)
      await isolator.close()
      expect((await (await open(spec, sandbox)).sh('echo alive')).out).toBe('alive')
      await isolator.remove(spec)
    }
    expect(bench.groups()).toEqual([])
  })

  it('is absent after a start without `prepareNext`, and the next start still works', async () => {
    await bench.closeAll()
    const isolator = bench.another({ prepareNext: false })
    for (let life = 0; life < 2; life++) {
      const spec = bench.spec()
      await isolator.start(spec)
      // The launcher of other tests prepares after 6 ms.
      await sleep(100)
      expect(spares()).toEqual([])
      await isolator.remove(spec)
    }
    await isolator.close()
    expect(bench.groups()).toEqual([])
  })

  it('ends with its process, and the next sweep cleans up after a killed one', async () => {
    await bench.closeAll()
    const isolator = bench.another()
    const spec = bench.spec()
    await isolator.start(spec)
    await soon(() => expect(spares()).toHaveLength(1))
    const [first] = spares()
    process.kill(first!, 'SIGKILL')
    await soon(() => expect(spares()).toEqual([]))
    expect(bench.groups()).toHaveLength(2)
    // The next start gets a new shim, and the new process removes the leftovers of the killed one.
    const second = bench.spec()
    await isolator.start(second)
    await bench.another().attach(spec)
    expect(bench.groups().filter((name) => name.startsWith(`${first}-`))).toEqual([])
    for (const one of [spec, second]) await isolator.remove(one)
    await isolator.close()
    expect(bench.groups()).toEqual([])
  })
})

describe('freezing', () => {
  it('freezes and thaws every process; a frozen sandbox can be killed', async () => {
    const box = await bench.start()
    await box.client.startDetached({
      id: 'count',
      argv: ['/bin/sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i > /tmp/i; sleep 0.01; done'],
    })
    // The test checks from outside, because a frozen process cannot answer.
    const count = () => Number(readOr(`/proc/${box.pids.runner}/root/tmp/i`))
    await soon(() => expect(count()).toBeGreaterThan(1))
    await box.sandbox.freeze()
    const frozen = count()
    await sleep(100)
    expect(count()).toBe(frozen)
    await box.sandbox.thaw()
    await soon(() => expect(count()).toBeGreaterThan(frozen))
    await box.sandbox.freeze()
    expect((await box.sandbox.kill()).killed).toBe(true)
  })

  it('a hold lasts until it is released or its holder dies, and a pause outlasts the hold', async () => {
    const box = await bench.start()
    const count = async () => Number((await box.sh('wc -c < /tmp/ticks')).out)
    await box.client.run({
      id: 'ticks',
      argv: ['/bin/sh', '-c', '(while :; do printf . >> /tmp/ticks; sleep 0.01; done) & sleep 0.1'],
    })
    const release = await box.sandbox.hold()
    expect(bench.frozen(box)).toBe(true)
    release()
    await soon(() => expect(bench.frozen(box)).toBe(false))
    const before = await count()
    await soon(async () => expect(await count()).toBeGreaterThan(before))
    // Another process holds the sandbox and is killed.
    const module = new URL('../index.ts', import.meta.url).href
    const script = `
      import { OciIsolator } from ${JSON.stringify(module)}
      const sandbox = await new OciIsolator(${JSON.stringify(bench.options)}).attach(${JSON.stringify(box.spec)})
      await sandbox.hold()
      console.log('held')
      setInterval(() => {}, 1000)`
    const args = ['--conditions=sandkasten-source', '--input-type=module-typescript', '-e', script]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    expect(bench.frozen(box)).toBe(true)
    child.kill('SIGKILL')
    await soon(() => expect(bench.frozen(box)).toBe(false))
    // A paused sandbox stays paused.
    await box.sandbox.freeze()
    const again = await box.sandbox.hold()
    again()
    const other = await bench.another().attach(box.spec)
    ;(await other!.hold())()
    expect(bench.frozen(box)).toBe(true)
    await box.sandbox.thaw()
    expect(await count()).toBeGreaterThan(before)
  })
})
