import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { talkTo } from '../testing/cage.ts'
import { type DockerCage, openDockerCage } from './testing/cage.ts'
import { dockerMissing } from './testing/daemons.ts'
import { importRootfs } from './testing/rootfs.ts'

const reason = dockerMissing()
let cage: DockerCage
beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason === undefined) cage = await openDockerCage('docker')
}, 600_000)
afterEach(async () => {
  // Leftovers of a failed test must not fail the next test.
  const left = (await cage?.docker.listContainers({ all: true })) ?? []
  for (const { Id } of left) await cage.docker.getContainer(Id).remove({ force: true })
  expect(left.map(({ Names }) => Names)).toEqual([])
})
afterAll(async () => cage?.[Symbol.asyncDispose](), 120_000)

it('gives its user the requested name and a home of that name', async () => {
  const spec = cage.spec({ sandboxId: 'account', account: 'ada', workdir: '/home/ada' })
  const talk = await talkTo(await cage.isolator.start(spec))
  const look = 'whoami; id -gn; pwd; echo "$HOME"; stat -c %U:%G ~; touch ~/mine && ls ~'
  expect((await talk.sh(look)).out).toBe('ada\nada\n/home/ada\n/home/ada\nada:ada\nmine')
  expect(await cage.isolator.remove(spec)).toBe(true)
})

describe.each(['socket', 'bridge'] as const)('lifecycle, with the runner reached by %s', (reach) => {
  it('a sandbox starts, is found again, is killed, starts again with its disk, and is removed', async () => {
    const isolator = cage.another({ bridge: reach === 'bridge' })
    const spec = cage.spec({ env: { GREETING: 'hello' }, sandboxId: `life-${reach}` })
    const first = await isolator.start(spec)
    const talk = await talkTo(first)
    expect((await talk.sh('id -u; pwd; echo "$GREETING"; touch kept')).out).toBe('1000\n/workspace\nhello')
    const bytes = Buffer.alloc(3_000_000, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)))
    await talk.client.files.write('/workspace/bytes', bytes)
    const back: Uint8Array[] = []
    const { content } = await talk.client.files.readStream('/workspace/bytes')
    for await (const chunk of content) back.push(chunk)
    expect(Buffer.concat(back).equals(bytes)).toBe(true)
    await expect(isolator.start(spec)).rejects.toMatchObject({ code: 'conflict' })

    const same = await cage.another().attach(spec)
    expect((await (await talkTo(same!)).sh('echo found')).out).toBe('found')
    expect(await isolator.lastEnd(spec)).toBeUndefined()
    await first.thaw()
    await first.freeze()
    await first.freeze()
    expect(await isolator.attach(spec)).toBeDefined()
    const end = await first.kill()
    expect(end).toMatchObject({ signal: 9, killed: true, oom: false, unwitnessed: false })
    expect(await first.ended).toEqual(end)
    expect(await same!.ended).toEqual(end)
    expect(await cage.isolator.lastEnd(spec)).toEqual(end)
    expect(await isolator.attach(spec)).toBeUndefined()
    await expect(first.connect()).rejects.toMatchObject({ code: 'not_running' })

    const again = await isolator.start(spec)
    expect((await (await talkTo(again)).sh('ls /workspace; id -u')).out).toBe('bytes\nkept\n1000')
    expect(await isolator.lastEnd(spec)).toBeUndefined()
    expect(await isolator.remove(spec)).toBe(true)
    expect(await again.ended).toBeDefined()
    expect(await isolator.remove(spec)).toBe(false)
    expect(existsSync(spec.folder)).toBe(false)
  })
})

describe('a held sandbox', () => {
  it('continues after the release of a hold, or at the next attach if its holder has died; a pause outlasts both', async () => {
    const box = await cage.start()
    const paused = async () =>
      (await cage.docker.getContainer(`sandkasten-${cage.owner}-${box.spec.sandboxId}`).inspect()).State
        .Paused
    const first = await box.sandbox.hold()
    const second = await box.sandbox.hold()
    expect(await paused()).toBe(true)
    first()
    // Still held. A release would send no event, so poll.
    expect(await (await cage.another().attach(box.spec))?.oomKills()).toBe(0)
    expect(await paused()).toBe(true)
    second()
    await expect.poll(paused, { timeout: 20_000 }).toBe(false)

    const module = new URL('../index.ts', import.meta.url).href
    const script = `
      import { DockerIsolator } from ${JSON.stringify(module)}
      const sandbox = await new DockerIsolator(${JSON.stringify(cage.options)}).attach(${JSON.stringify(box.spec)})
      await sandbox.hold()
      console.log('held')
      setInterval(() => {}, 1000)`
    const args = ['--conditions=sandkasten-source', '--input-type=module-typescript', '-e', script]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    expect(await paused()).toBe(true)
    const closed = once(child, 'close')
    child.kill('SIGKILL')
    await closed
    await cage.another().attach(box.spec)
    expect(await paused()).toBe(false)
    expect((await box.sh('echo alive')).out).toBe('alive')

    const moment = await box.sandbox.hold()
    await box.sandbox.freeze()
    moment()
    ;(await box.sandbox.hold())()
    await cage.another().attach(box.spec)
    expect(await paused()).toBe(true)
    await box.sandbox.thaw()
    expect((await box.sh('echo alive')).out).toBe('alive')
    expect(await cage.remove(box)).toEqual([])
  })
})

describe('an unexpected end', () => {
  it('is detected and reported with the daemon’s exit status', async () => {
    const box = await cage.start()
    process.kill(box.runnerPid, 'SIGKILL')
    expect(await box.sandbox.ended).toMatchObject({ signal: 9, killed: false, unwitnessed: false })
    await cage.remove(box)
  })

  it('the kernel counts out-of-memory kills of one command and of the whole sandbox', async () => {
    const box = await cage.start({ limits: { memoryBytes: 48 * 1024 * 1024 } })
    expect(await box.sandbox.oomKills()).toBe(0)
    const bomb = await box.sh(`exec perl -e 'my @a; push @a, "x" x 1048576 for 1..512'`)
    expect(bomb.signal).toBe('SIGKILL')
    expect(await box.sandbox.oomKills()).toBe(1)
    expect(await box.sandbox.stats()).toMatchObject({ memoryLimitBytes: 48 * 1024 * 1024, oomKills: 1 })
    expect(await box.sandbox.kill()).toMatchObject({ oom: true, oomKills: 1 })
    await cage.remove(box)
  })
})

describe('limits', () => {
  it('are enforced for processes, memory in /tmp, processor and open files', async () => {
    const box = await cage.start({ limits: { pids: 24, tmpBytes: 1024 * 1024, openFiles: 1024, cpus: 0.5 } })
    expect((await box.sh('head -c 2000000 /dev/zero > /tmp/x')).err).toContain('No space left')
    expect((await box.sh('ulimit -n; ulimit -c')).out).toBe('1024\n0')
    const { HostConfig } = await cage.docker
      .getContainer(`sandkasten-${cage.owner}-${box.spec.sandboxId}`)
      .inspect()
    expect(HostConfig).toMatchObject({ NanoCpus: 5e8, PidsLimit: 24, MemorySwap: HostConfig.Memory })
    expect((await box.sh('for i in $(seq 40); do sleep 1000 & done')).err).toMatch(/fork|Resource/i)
    await cage.remove(box)
  })
})

describe('a container of another owner', () => {
  it('is never touched, whether it has our name or belongs to another engine', async () => {
    const box = await cage.start({ sandboxId: 'shared-name' })
    const stranger = cage.another({ stateFolder: join(cage.folder, 'another-engine') })
    expect(await stranger.attach(box.spec)).toBeUndefined()
    expect(await stranger.lastEnd(box.spec)).toBeUndefined()
    expect(await stranger.remove({ ...box.spec, folder: join(cage.folder, 'elsewhere') })).toBe(false)
    expect((await box.sh('echo alive')).out).toBe('alive')
    await cage.remove(box)

    const [image] = await cage.docker.listImages()
    const foreign = await cage.docker.createContainer({
      name: `sandkasten-${cage.owner}-foreign`,
      Image: image!.Id,
      Entrypoint: ['/bin/true'],
    })
    const spec = cage.spec({ sandboxId: 'foreign' })
    expect(await cage.isolator.attach(spec)).toBeUndefined()
    expect(await cage.isolator.remove(spec)).toBe(false)
    await expect(cage.isolator.start(spec)).rejects.toMatchObject({ code: 'conflict' })
    expect((await foreign.inspect()).State.Status).toBe('created')
    await foreign.remove()
  })
})

it('a sweep removes only containers whose folder is gone', async () => {
  const [lost, kept] = [await cage.start(), await cage.start()]
  rmSync(lost.spec.folder, { recursive: true, force: true })
  await cage.another({ stateFolder: join(cage.folder, 'another-engine') }).sweep(cage.folder)
  await cage.isolator.sweep(join(cage.folder, 'elsewhere'))
  expect(await cage.docker.listContainers()).toHaveLength(2)
  await cage.isolator.sweep(cage.folder)
  expect(await lost.sandbox.ended).toBeDefined()
  expect((await kept.sh('echo here')).out).toBe('here')
  expect(await cage.remove(lost)).toEqual([])
  await cage.remove(kept)
})

describe('images', () => {
  it('a missing image is an error with the pull command; nothing is pulled or left behind', async () => {
    const spec = cage.spec({ image: { reference: 'no-such-image:1' } })
    await expect(cage.isolator.start(spec)).rejects.toMatchObject({
      code: 'not_found',
      hint: expect.stringContaining('docker pull no-such-image:1'),
    })
  })

  it('an image of the daemon gets the working directory, and its own settings have no effect', async () => {
    await importRootfs(cage.docker, 'small:1', [
      'USER 1234',
      'ENTRYPOINT ["/bin/false"]',
      'ENV FROM_IMAGE=yes',
    ])
    const spec = cage.spec({ image: { reference: 'small:1' }, workdir: '/app/here' })
    const talk = await talkTo(await cage.isolator.start(spec))
    const { out, err } = await talk.sh('pwd; echo $FROM_IMAGE; echo x > file && cat file; echo > /app/x')
    expect(out).toBe('/app/here\nyes\nx')
    expect(err).toContain('Permission denied')
    await cage.isolator.remove(spec)
  })

  it('without a shared disk, the runner is reached over the daemon’s connection and `host` is rejected', async () => {
    // The daemon has its own /run and does not see ours.
    const runFolder = mkdtempSync('/run/skt-')
    onTestFinished(() => rmSync(runFolder, { recursive: true, force: true }))
    const remote = cage.another({ runFolder })
    await importRootfs(cage.docker, 'small:1')
    const spec = cage.spec({ image: { reference: 'small:1' } })
    const sandbox = await remote.start(spec)
    expect((await (await talkTo(sandbox)).sh('echo far; pwd')).out).toBe('far\n/workspace')
    expect(await sandbox.oomKills()).toBeUndefined()
    expect(await sandbox.stats()).toMatchObject({ pids: expect.any(Number), memoryBytes: expect.any(Number) })
    await remote.remove(spec)
    await expect(remote.start(cage.spec())).rejects.toMatchObject({ code: 'unsupported' })
    const mounts = [{ source: '/usr', target: '/data' }]
    await expect(remote.start(cage.spec({ image: { reference: 'small:1' }, mounts }))).rejects.toMatchObject({
      code: 'unsupported',
    })
  })
})

it('mounts are read-only, and mounts below them are not visible', async () => {
  const source = join(cage.folder, 'given')
  mkdirSync(source)
  writeFileSync(join(source, 'file'), 'given')
  const box = await cage.start({ mounts: [{ source, target: '/data' }] })
  const { out, err } = await box.sh('cat /data/file; echo x > /data/file; touch /data/y', { user: '0' })
  expect(out).toBe('given')
  expect(err.match(/Read-only/g)).toHaveLength(2)
  await cage.remove(box)
})

it('the start fails if the daemon ignores a restriction', async () => {
  const open = cage.another({ seccompProfile: 'unconfined' })
  const spec = cage.spec()
  await expect(open.start(spec)).rejects.toSatisfy(
    (error) => SandboxError.is(error, 'unsupported') && error.message.includes('Seccomp 0'),
  )
})

it('an open sandbox does not keep a process alive', async () => {
  const box = await cage.start()
  const script = `import { DockerIsolator } from ${JSON.stringify(new URL('./isolator.ts', import.meta.url).href)}
    const isolator = new DockerIsolator(${JSON.stringify({
      socketPath: cage.daemon.socketPath,
      runner: '/none',
      stateFolder: join(cage.folder, 'state'),
      runFolder: join(cage.folder, 'run'),
    })})
    const sandbox = await isolator.attach(${JSON.stringify(box.spec)})
    console.log(sandbox ? 'held' : 'not found')`
  const args = ['--conditions=sandkasten-source', '--input-type=module-typescript', '-e', script]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (chunk) => {
    out += chunk
  })
  expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(0)
  expect(out).toBe('held\n')
  expect((await box.sh('echo alive')).out).toBe('alive')
  await cage.remove(box)
})
