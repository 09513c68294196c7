import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkipAnyone, type TestStore, testStore, writeLayout } from '../images/testing/image.ts'
import { file, folder, symlink, tar } from '../images/testing/tar.ts'
import { findTool, startRegistry, staticBusybox } from '../images/testing/tools.ts'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider } from './engine-provider.ts'
import { locateRunner } from './locate-runner.ts'

const skipped = reasonToSkipAnyone ?? (await reasonToSkip('anyone'))
const busybox = staticBusybox()

let bench: TestStore
let provider: EngineProvider

beforeAll(async () => {
  if (skipped) return
  bench = await testStore()
  provider = new EngineProvider({ isolator: 'oci', root: bench.root })
})
afterAll(async () => {
  if (skipped) return
  // Removes leftovers of a failed test.
  for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
  bench[Symbol.dispose]()
})
beforeEach(({ skip }) => {
  if (skipped) skip(skipped)
})

/** A layer with only a static program: our own runner. */
async function bareLayer(): Promise<Buffer> {
  return tar([file('tool', readFileSync(await locateRunner()), { mode: 0o755 })])
}

function busyboxLayer(): Buffer {
  const names = ['sh', 'ls', 'cat', 'id', 'stat', 'pwd', 'env', 'touch', 'sleep', 'find']
  return tar([
    folder('bin'),
    file('bin/busybox', readFileSync(busybox!), { mode: 0o755 }),
    ...names.map((name) => symlink(`bin/${name}`, 'busybox')),
  ])
}

describe('sandboxes of an image with only busybox', () => {
  beforeEach(({ skip }) => {
    if (!busybox) skip('needs a static busybox: npm test fetches it on Debian')
  })

  it('root changes files of the image, and a fork keeps them', async ({ skip }) => {
    if (process.getuid?.() !== 0) skip('only root gives a sandbox a root user')
    const { path } = writeLayout(join(bench.folder, 'for-root'), {
      layers: [busyboxLayer(), tar([folder('usr'), file('usr/tool', 'old', { mode: 0o600, uid: 0 })])],
      config: { Env: ['PATH=/bin'], User: '4242:4343' },
    })
    await bench.store.import(path, { name: 'for-root' })
    const sandbox = await provider.create({ image: 'for-root', user: 'root' })
    const sh = async (box: Pick<typeof sandbox, 'runCommand'>, line: string) => {
      const { stdout, stderr } = await box.runCommand({ cmd: 'sh', args: ['-c', line] })
      return stdout + stderr
    }
    expect(
      await sh(
        sandbox,
        'id -u; cat /usr/tool; echo new > /usr/tool; touch /bin/added; stat -c %u /bin/added',
      ),
    ).toBe('0\nold0\n')
    const [copy] = await sandbox.fork()
    if (!copy || copy instanceof Error) throw copy
    expect(await sh(copy, 'id -u; cat /usr/tool; ls /bin/added')).toBe('0\nnew\n/bin/added\n')
    await copy.destroy()
    const plain = await provider.create({ image: 'for-root' })
    expect(await sh(plain, 'id -u; cat /usr/tool')).toMatch(/^4242\n.*Permission denied/)
    await plain.destroy()
    await sandbox.destroy()
  })

  it('root uses sudo, its own where the image has one, and a fork keeps it', async ({ skip }) => {
    if (process.getuid?.() !== 0) skip('only root gives a sandbox a root user')
    const own = file('usr/bin/sudo', '#!/bin/sh\necho own sudo\n', { mode: 0o755 })
    for (const [name, more] of [
      ['plain', []],
      ['with-sudo', [folder('usr'), folder('usr/bin'), own]],
    ] as const) {
      const { path } = writeLayout(join(bench.folder, name), { layers: [busyboxLayer(), tar([...more])] })
      await bench.store.import(path, { name })
    }
    const line = 'cd /; sudo -n -- sh -c \'id -u; touch /bin/added && echo added "$0"\' word'
    const sudo = async (box: Pick<typeof plain, 'runCommand'>) => {
      const { stdout, stderr } = await box.runCommand({ cmd: 'sh', args: ['-c', line] })
      return stdout + stderr
    }
    const plain = await provider.create({ image: 'plain', user: 'root' })
    expect(await sudo(plain)).toBe('0\nadded word\n')
    const [copy] = await plain.fork()
    if (!copy || copy instanceof Error) throw copy
    expect(await sudo(copy)).toBe('0\nadded word\n')
    const itsOwn = await provider.create({ image: 'with-sudo', user: 'root' })
    expect(await sudo(itsOwn)).toBe('own sudo\n')
    // Another user gets no sudo.
    const ordinary = await provider.create({ image: 'plain' })
    expect(await sudo(ordinary)).toContain('not found')
    for (const sandbox of [plain, copy, itsOwn, ordinary]) await sandbox.destroy()
  })

  it('use its layers, environment, user and working folder, with sh as the shell', async () => {
    const lower = [
      folder('data', { mode: 0o755 }),
      file('data/old', 'old'),
      file('gone', 'gone'),
      folder('replaced'),
      file('replaced/old', 'old'),
      file('secret', 'secret', { mode: 0o600, uid: 0 }),
      file('mine', 'mine', { mode: 0o600, uid: 4242, gid: 4343 }),
      folder('usr', { mode: 0o755 }),
      folder('usr/src', { mode: 0o711, uid: 7, gid: 7 }),
    ]
    const upper = [
      file('.wh.gone'),
      folder('data'),
      file('data/.wh..wh..opq'),
      file('data/new', 'new'),
      file('.wh.replaced'),
      folder('replaced'),
      file('replaced/new', 'new'),
    ]
    const { path } = writeLayout(join(bench.folder, 'layout'), {
      layers: [busyboxLayer(), tar(lower), tar(upper)],
      config: {
        Env: ['GREETING=hello', 'PATH=/bin', 'HOME=/nowhere'],
        User: '4242:4343',
        WorkingDir: '/usr/src/app',
      },
    })
    await bench.store.import(path, { name: 'small' })
    await using sandbox = await provider.create({ image: 'small', envVars: { GIVEN: 'too' } })
    const sh = async (line: string) => {
      const { stdout, stderr } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', line] })
      return stdout + stderr
    }
    expect(await sh('id -u; id -g; pwd; echo $GREETING $GIVEN $HOME')).toBe(
      '4242\n4343\n/usr/src/app\nhello too /home/sandbox\n',
    )
    expect(await sh('ls /data /replaced; ls /gone; cat /mine')).toBe(
      '/data:\nnew\n\n/replaced:\nnew\nmine' + 'ls: /gone: No such file or directory\n',
    )
    expect(await sh('cat /secret')).toContain('Permission denied')
    expect(await sh('stat -c "%a %u:%g" /usr/src /usr/src/app')).toBe('711 7:7\n755 4242:4343\n')
    await sandbox.files.writeFile('note', 'kept')
    const shell = await sandbox.openShell({ name: 'main' })
    expect(await shell.exec('cd /data; X=1; cat new; ls /usr/src/app')).toMatchObject({
      output: 'newnote\n',
      exitCode: 0,
    })
    expect((await shell.exec('pwd; echo $X')).output).toBe('/data\n1\n')
    const layer = bench.store.imageLayers('small').layers[1]!
    expect(await sh('touch /data/x /usr/src/app/y; ls -a /usr/src/app')).toContain('y')
    expect(readdirSync(join(layer, 'data'))).toEqual(['new'])
    await sandbox.destroy()
  })

  it('work with root-only folders, and devices and overlay attributes of the archive have no effect', async () => {
    const attack = { 'SCHILY.xattr.user.overlay.redirect': '/closed', 'SCHILY.xattr.user.note': 'kept' }
    const { path } = writeLayout(join(bench.folder, 'closed'), {
      layers: [
        busyboxLayer(),
        tar([
          folder('closed', { mode: 0o700 }),
          folder('closed/app', { mode: 0o700 }),
          file('closed/secret', 'secret'),
          { name: 'null', kind: '3', device: [1, 3], mode: 0o666 },
          folder('open', { pax: attack }),
        ]),
      ],
      config: { WorkingDir: '/closed/app/deep', Env: ['PATH=/bin'] },
    })
    await bench.store.import(path, { name: 'closed' })
    const sandbox = await provider.create({ image: 'closed' })
    const sh = async (line: string) =>
      (await sandbox.runCommand({ cmd: 'sh', args: ['-c', line], cwd: '/' })).stdout
    expect(await sh('stat -c "%a %u:%g" /closed; ls /open; ls /closed 2>&1')).toBe(
      "700 0:0\nls: can't open '/closed': Permission denied\n",
    )
    // A device of the image cannot be opened.
    expect(await sh('cat /null 2>&1 || echo refused')).toContain('refused')
    await sandbox.destroy()
    await bench.store.remove('closed')
  })

  it('keep the layers of a removed image until the last sandbox is gone', async () => {
    const { path } = writeLayout(join(bench.folder, 'kept'), {
      layers: [busyboxLayer(), tar([file('kept', 'kept')])],
    })
    await bench.store.import(path, { name: 'kept' })
    const { layers } = bench.store.imageLayers('kept')
    const sandbox = await provider.create({ image: 'kept' })
    await sandbox.stop()
    expect(await bench.store.remove('kept')).toMatchObject({ kept: true })
    await bench.store.prune({ unused: true })
    await sandbox.start()
    expect((await sandbox.runCommand({ cmd: 'cat', args: ['/kept'] })).stdout).toBe('kept')
    await expect(provider.create({ image: 'kept' })).rejects.toMatchObject({ code: 'not_found' })
    await sandbox.destroy()
    await bench.store.prune()
    expect(existsSync(layers[1]!)).toBe(false)
  })
})

describe('snapshots of a sandbox of an image', () => {
  it('keep the image’s layers and user after the image is removed', async () => {
    const layers = [await bareLayer(), tar([file('part', 'of the image')])]
    const { path } = writeLayout(join(bench.folder, 'snapped'), {
      layers,
      config: { User: '77:78', Env: ['A=1'], WorkingDir: '/srv/x' },
    })
    await bench.store.import(path, { name: 'snapped' })
    const { layers: folders } = bench.store.imageLayers('snapped')
    const sandbox = await provider.create({ image: 'snapped' })
    await sandbox.files.writeFile('note', 'written')
    const { snapshotId } = await sandbox.snapshot()
    await sandbox.destroy()
    await bench.store.remove('snapped')
    await bench.store.prune({ unused: true })
    const again = await provider.create({ snapshotId })
    expect(await again.files.readFile('/srv/x/note', 'utf8')).toBe('written')
    expect(await again.files.readFile('/part', 'utf8')).toBe('of the image')
    const tool = await again.spawn({ cmd: '/tool', args: ['serve', '--socket', '/tmp/s'] })
    expect(await again.files.readFile(`/proc/${tool.pid}/status`, 'utf8')).toMatch(
      /^Uid:\s+77\s[\s\S]*^Gid:\s+78\s/m,
    )
    await again.destroy()
    await provider.deleteSnapshot(snapshotId)
    await bench.store.prune()
    expect(folders.filter((folder) => existsSync(folder))).toEqual([])
  })
})

describe('sandboxes of an image without any shell', () => {
  it('run its program, have files, and report that there is no shell', async () => {
    const { path } = writeLayout(join(bench.folder, 'bare'), { layers: [await bareLayer()] })
    await bench.store.import(path, { name: 'bare' })
    const sandbox = await provider.create({ image: 'bare' })
    expect((await sandbox.runCommand({ cmd: '/tool', args: ['version'] })).stdout).toMatch(/^\d+\.\d+/)
    await sandbox.files.writeFile('note', 'text')
    expect(await sandbox.files.readFile('/workspace/note', 'utf8')).toBe('text')
    await expect(sandbox.runCommand({ cmd: 'sh', args: ['-c', 'true'] })).rejects.toMatchObject({
      code: 'command_not_found',
    })
    await expect(sandbox.openShell({ name: 'main' })).rejects.toMatchObject({ code: 'command_not_found' })
    await sandbox.stop()
    await sandbox.start()
    expect((await sandbox.runCommand({ cmd: '/tool', args: ['version'] })).exitCode).toBe(0)
    await sandbox.destroy()
  })

  it('keep the image’s layers after the image itself is removed', async () => {
    const { path } = writeLayout(join(bench.folder, 'saved'), {
      layers: [await bareLayer(), tar([file('part', 'of the image')])],
      config: { WorkingDir: '/work', User: '4242:4343' },
    })
    await bench.store.import(path, { name: 'saved' })
    const { layers } = bench.store.imageLayers('saved')
    const sandbox = await provider.create({ image: 'saved' })
    await sandbox.files.writeFile('note', 'text')
    await sandbox.stop()
    const { snapshotId } = await sandbox.snapshot()
    await sandbox.destroy()
    await bench.store.remove('saved')
    await bench.store.prune({ unused: true })
    const copy = await provider.create({ snapshotId })
    const [fork] = await copy.fork()
    if (!fork || fork instanceof Error) throw fork
    for (const each of [copy, fork]) {
      expect(each.workdir).toBe(sandbox.workdir)
      expect(await each.files.readFile('note', 'utf8')).toBe('text')
      expect(await each.files.readFile('/part', 'utf8')).toBe('of the image')
      await each.destroy()
    }
    expect(existsSync(layers[1]!)).toBe(true)
    await provider.deleteSnapshot(snapshotId)
    await bench.store.prune()
    expect(existsSync(layers[1]!)).toBe(false)
  })

  it('do not start without their layer, and the error says what to do', async () => {
    const { path } = writeLayout(join(bench.folder, 'gone'), {
      layers: [await bareLayer(), tar([file('part', 'of it')])],
    })
    await bench.store.import(path, { name: 'gone' })
    const { layers } = bench.store.imageLayers('gone')
    const sandbox = await provider.create({ image: 'gone' })
    await sandbox.stop()
    renameSync(dirname(layers[1]!), join(bench.folder, 'elsewhere'))
    const wanted = {
      code: 'unavailable',
      hint: expect.stringContaining('sandkasten image remove gone:latest'),
    }
    await expect(sandbox.start()).rejects.toMatchObject(wanted)
    await expect(provider.create({ image: 'gone' })).rejects.toMatchObject(wanted)
    expect(await sandbox.destroy()).toBe(true)
    expect(await provider.list()).toEqual([])
  })
})

describe('sandboxes of a hostile image', () => {
  it('do not start, or are isolated as usual', async () => {
    const attacks = {
      // Following these links on this machine would cover or expose its files.
      proc: [symlink('proc', '/etc'), symlink('dev', '/')],
      run: [folder('run'), symlink('run/sandkasten', '/etc'), symlink('run/sandkasten-runner', '/tool')],
      etc: [symlink('etc', '/proc/self/root/etc'), symlink('workspace', '/proc'), symlink('home', '/dev')],
    }
    const started: string[] = []
    for (const [name, entries] of Object.entries(attacks)) {
      const layers = [await bareLayer(), tar(entries)]
      await bench.store.import(writeLayout(join(bench.folder, name), { layers }).path, { name })
      const sandbox = await provider.create({ image: name }).catch((error) => {
        expect(error).toMatchObject({ name: 'SandboxError', code: 'unavailable' })
      })
      if (!sandbox) continue
      started.push(name)
      expect((await sandbox.runCommand({ cmd: '/tool', args: ['version'] })).exitCode).toBe(0)
      expect(await sandbox.files.readFile('/etc/hostname', 'utf8')).toBe('sandbox\n')
      expect(await sandbox.files.readFile('/proc/1/comm', 'utf8')).toMatch(/^sandkasten/)
      await sandbox.destroy()
    }
    expect(started).toEqual(['run', 'etc'])
    expect(await provider.list()).toEqual([])
  })
})

describe('create', () => {
  it('does not pull unless `pull` is set', async () => {
    await expect(provider.create({ image: 'not-here:1' })).rejects.toMatchObject({
      code: 'not_found',
      hint: expect.stringMatching(/^Run: sandkasten image pull not-here:1\. /),
    })
    const pulling = new EngineProvider({ isolator: 'oci', root: bench.root, pull: true })
    // Nothing listens there, so the error proves that the registry was contacted.
    await expect(pulling.create({ image: '127.0.0.1:1/not-here:1' })).rejects.toMatchObject({
      code: expect.stringMatching(/provider_error|unavailable/),
      message: expect.stringMatching(/not-here|skopeo/),
    })
    expect(await provider.list()).toEqual([])
  })

  it('pulls a missing image if `pull` is set', async ({ skip }) => {
    const [program, skopeo] = [findTool('docker-registry'), findTool('skopeo')]
    if (!program || !skopeo) skip('needs docker-registry and skopeo: npm test fetches them on Debian')
    const { path } = writeLayout(join(bench.folder, 'pushed'), { layers: [await bareLayer()], name: 'x' })
    const registry = await startRegistry(program!)
    const image = `${registry.host}/tool:1`
    const args = ['--insecure-policy', 'copy', '--quiet', '--dest-tls-verify=false']
    await promisify(execFile)(skopeo!, [...args, `oci:${path}:x`, `docker://${image}`]).catch(
      async (error) => {
        await registry[Symbol.asyncDispose]()
        throw error
      },
    )
    const pulling = new EngineProvider({ isolator: 'oci', root: bench.root, pull: true })
    for (const isThere of [false, true]) {
      // The second create needs no registry.
      if (isThere) await registry[Symbol.asyncDispose]()
      const sandbox = await pulling.create({ image })
      expect((await sandbox.runCommand({ cmd: '/tool', args: ['version'] })).exitCode).toBe(0)
      await sandbox.destroy()
    }
  })

  it('works with any umask: generated files are world-readable in the sandbox', async () => {
    const module = JSON.stringify(new URL('./engine-provider.ts', import.meta.url).href)
    const script = `process.umask(0o077)
      const { EngineProvider } = await import(${module})
      const provider = new EngineProvider({ isolator: 'oci', root: ${JSON.stringify(join(bench.folder, 'private'))} })
      const sandbox = await provider.create()
      try {
      const { stdout, stderr } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'cat /etc/passwd /etc/hosts /etc/nsswitch.conf; ls / /etc /var/tmp /workspace >/dev/null; touch x; ls'] })
      console.log(stdout + stderr)
      } finally { await sandbox.destroy() }`
    const args = ['--conditions=sandkasten-source', '--input-type=module', '-e', script]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    expect(stdout).toContain('sandbox:x:1000:1000')
    expect(stdout).toContain('127.0.0.1 localhost')
    expect(stdout.trim().endsWith('\nx')).toBe(true)
    expect(stdout).not.toContain('denied')
  })
})
