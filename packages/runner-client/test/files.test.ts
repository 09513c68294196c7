import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { RunnerClient } from '@sandkasten/runner-client'
import { type DirectoryEntry, gather, type WatchEvent } from '@sandkasten/runner-client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeCbor } from '../src/cbor.ts'
import { encodeFrame, encodeHello, FrameType } from '../src/frame.ts'
import { Random } from '../src/test-helper.ts'
import { fresh, startRunner, type TestRunner } from './harness.ts'

let runner: TestRunner
let client: RunnerClient

beforeAll(async () => {
  runner = await startRunner()
  client = await runner.connect()
})
afterAll(() => runner[Symbol.asyncDispose]())

/** A new folder for one test. */
function folder(): string {
  const path = join(runner.folder, fresh('folder'))
  mkdirSync(path)
  return path
}

async function listed(path: string | Uint8Array, depth?: number): Promise<DirectoryEntry[]> {
  const entries: DirectoryEntry[] = []
  for await (const entry of client.files.list(path, { depth })) entries.push(entry)
  return entries.sort((a, b) => Buffer.compare(a.pathBytes, b.pathBytes))
}

const strange = Buffer.concat([Buffer.from(' -rf \'"\\\n\t$(x);*?[é'), Buffer.from([0xff, 0xfe, 0x01])])

describe('files', () => {
  it('read and write any bytes under any name', async () => {
    const path = Buffer.concat([Buffer.from(`${folder()}/`), strange])
    const content = new Random(1).bytes(200_000)
    expect(await client.files.write(path, content)).toBe(200_000)
    expect(await client.files.read(path)).toEqual(content)
    expect((await client.files.stat(path)).size).toBe(200_000)
    expect(Buffer.from((await listed(path.subarray(0, path.lastIndexOf(0x2f))))[0]?.pathBytes ?? [])).toEqual(
      strange,
    )
  })

  it('a write with a failing source leaves no file', async () => {
    const place = folder()
    async function* torn() {
      yield Buffer.alloc(1000)
      throw new Error('the source broke')
    }
    for (let round = 0; round < 300; round++) {
      await expect(client.files.write(join(place, 'file'), torn())).rejects.toThrow('the source broke')
      expect(readdirSync(place)).toEqual([])
    }
  })

  it('read a range', async () => {
    const path = join(folder(), 'f')
    await client.files.write(path, '0123456789')
    const part = async (options: object) => (await client.files.read(path, options)).toString()
    expect(await part({ offset: 3, length: 4 })).toBe('3456')
    expect(await part({ offset: 8, length: 100 })).toBe('89')
    expect(await part({ offset: 100 })).toBe('')
    expect(await part({ length: 0 })).toBe('')
    const { facts } = await client.files.readStream(path, { length: 1 })
    expect(facts).toMatchObject({ kind: 'file', size: 10, mode: 0o644 })
  })

  it('a consumer that stops early ends the read', async () => {
    const path = join(folder(), 'f')
    await client.files.write(path, Buffer.alloc(10 * 1024 * 1024))
    const { content } = await client.files.readStream(path)
    for await (const part of content) {
      expect(part.length).toBeGreaterThan(0)
      break
    }
    await expect(client.files.read(path, { maxBytes: 1000 })).rejects.toMatchObject({ code: 'too_large' })
    expect((await client.files.stat(path)).size).toBe(10 * 1024 * 1024)
  })

  it('are written completely or not at all: an aborted upload keeps the old file and leaves no partial file', async () => {
    const dir = folder()
    const path = join(dir, 'f')
    await client.files.write(path, 'old')
    const own = await runner.connect()
    const { promise: sent, resolve } = Promise.withResolvers<void>()
    async function* torn(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(500_000, 'n')
      resolve()
      await new Promise(() => {})
    }
    own.files.write(path, torn()).catch(() => {})
    await sent
    expect(readFileSync(path, 'utf8')).toBe('old')
    own.close()
    while (readdirSync(dir).length > 1) await client.ping()
    expect(readFileSync(path, 'utf8')).toBe('old')
    // A failing source cancels the write, with the same result.
    const failing = (async function* () {
      yield Buffer.from('n')
      throw new Error('source')
    })()
    await expect(client.files.write(path, failing)).rejects.toThrow('source')
    while (readdirSync(dir).length > 1) await client.ping()
    expect(readFileSync(path, 'utf8')).toBe('old')
  })

  it('are complete or absent if the client disconnects right after sending all content', async () => {
    const content = Buffer.alloc(250_000, 'w')
    const whole = (path: string) => [
      encodeHello(),
      encodeFrame(FrameType.request, 1, encodeCbor({ op: 'fs.write', path })),
      ...Array.from({ length: 5 }, (_, n) =>
        encodeFrame(FrameType.data, 1, content.subarray(n * 50_000, (n + 1) * 50_000)),
      ),
      encodeFrame(FrameType.end, 1),
    ]
    const dir = folder()
    // More than a pipe holds, so the worker has not received everything when the connection closes or the write is
    // cancelled.
    for (let n = 0; n < 40; n += 1) {
      const socket = await runner.raw()
      const cancel = n % 2 === 0 ? [] : [encodeFrame(FrameType.cancel, 1)]
      socket.on('error', () => {}).end(Buffer.concat([...whole(join(dir, `f${n}`)), ...cancel]))
      await once(socket.resume(), 'close')
    }
    while (readdirSync(dir).some((name) => name.endsWith('.part'))) await client.ping()
    for (const name of readdirSync(dir))
      expect([name, lstatSync(join(dir, name)).size]).toEqual([name, 250_000])
  })

  it('modes, appending, exclusive creation, missing parents, symlinks', async () => {
    const dir = folder()
    const path = join(dir, 'f')
    await client.files.write(path, 'a', { mode: 0o640 })
    await client.files.write(path, 'b')
    expect(statSync(path).mode & 0o7777).toBe(0o640)
    await client.files.write(path, 'c', { append: true })
    expect(readFileSync(path, 'utf8')).toBe('bc')
    await expect(client.files.write(path, 'x', { exclusive: true })).rejects.toMatchObject({
      code: 'file_exists',
    })
    await client.files.write(join(dir, 'new'), 'x', { exclusive: true })
    await expect(client.files.write(join(dir, 'no/such/f'), 'x')).rejects.toMatchObject({
      code: 'file_not_found',
    })
    await client.files.write(join(dir, 'no/such/f'), 'x', { parents: true })
    symlinkSync('f', join(dir, 'link'))
    await client.files.write(join(dir, 'link'), 'through')
    expect([readFileSync(path, 'utf8'), lstatSync(join(dir, 'link')).isSymbolicLink()]).toEqual([
      'through',
      true,
    ])
    symlinkSync('loop', join(dir, 'loop'))
    await expect(client.files.write(join(dir, 'loop'), 'x')).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await client.files.write('relative', 'x', { cwd: dir })
    expect(readFileSync(join(dir, 'relative'), 'utf8')).toBe('x')
    expect(readdirSync(dir).sort()).toEqual(['f', 'link', 'loop', 'new', 'no', 'relative'])
  })

  it('anything but a regular file is rejected without waiting', async () => {
    const dir = folder()
    execFileSync('mkfifo', [join(dir, 'fifo')])
    for (const path of [join(dir, 'fifo'), '/dev/zero', '/dev/tty']) {
      await expect(client.files.read(path)).rejects.toMatchObject({
        code: expect.stringMatching(/invalid_argument|provider_error/),
      })
      await expect(client.files.write(path, 'x')).rejects.toMatchObject({ code: 'invalid_argument' })
      await expect(client.files.write(path, 'x', { append: true })).rejects.toMatchObject({
        code: expect.any(String),
      })
    }
    await expect(client.files.read(dir)).rejects.toMatchObject({ code: 'is_a_directory' })
    await expect(client.files.write(dir, 'x')).rejects.toMatchObject({ code: 'is_a_directory' })
    await expect(client.files.read(join(dir, 'nothing'))).rejects.toMatchObject({ code: 'file_not_found' })
    await expect(client.files.read('')).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(client.files.read('/a\0b')).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(client.files.read(`/${'x'.repeat(5000)}`)).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    expect((await client.files.read('/proc/self/status')).toString()).toContain('Name:')
  })

  it('mkdir, rename, chmod, stat, remove', async () => {
    const dir = folder()
    expect(await client.files.mkdir(join(dir, 'a/b/c'), { parents: true, mode: 0o700 })).toBe(true)
    expect(await client.files.mkdir(join(dir, 'a/b/c'), { parents: true })).toBe(false)
    await expect(client.files.mkdir(join(dir, 'a/b/c'))).rejects.toMatchObject({ code: 'file_exists' })
    await expect(client.files.mkdir(join(dir, 'x/y'))).rejects.toMatchObject({ code: 'file_not_found' })
    expect(statSync(join(dir, 'a/b/c')).mode & 0o777).toBe(0o700)
    writeFileSync(join(dir, 'f'), 'f')
    await expect(client.files.mkdir(join(dir, 'f/g'), { parents: true })).rejects.toMatchObject({
      code: 'not_a_directory',
    })
    writeFileSync(join(dir, 'g'), 'g')
    await expect(
      client.files.rename(join(dir, 'f'), join(dir, 'g'), { exclusive: true }),
    ).rejects.toMatchObject({ code: 'file_exists' })
    await client.files.rename(join(dir, 'f'), join(dir, 'g'))
    await client.files.chmod(join(dir, 'g'), 0o4711)
    expect(await client.files.stat(join(dir, 'g'))).toMatchObject({
      kind: 'file',
      size: 1,
      mode: 0o4711,
      links: 1,
    })
    symlinkSync('/nowhere', join(dir, 'dangling'))
    await expect(client.files.stat(join(dir, 'dangling'))).rejects.toMatchObject({ code: 'file_not_found' })
    const link = await client.files.stat(join(dir, 'dangling'), { noFollow: true })
    expect([link.kind, Buffer.from(link.target ?? []).toString()]).toEqual(['symlink', '/nowhere'])
    await expect(client.files.remove(join(dir, 'a'))).rejects.toMatchObject({ code: 'directory_not_empty' })
    expect(await client.files.remove(join(dir, 'a'), { recursive: true })).toBe(3)
    await expect(client.files.remove(join(dir, 'a'))).rejects.toMatchObject({ code: 'file_not_found' })
    expect(await client.files.remove(join(dir, 'a'), { force: true })).toBe(0)
  })

  it('removing a tree follows no symlink and survives any depth', async () => {
    const dir = folder()
    mkdirSync(join(dir, 'outside'))
    writeFileSync(join(dir, 'outside/keep'), '')
    mkdirSync(join(dir, 'tree'))
    symlinkSync('../outside', join(dir, 'tree/link'))
    // Deeper than the maximum length of a path.
    const deep =
      'import os\nos.chdir("tree")\nfor i in range(3000):\n  os.mkdir("ddddd"); os.chdir("ddddd")\nopen("f","w")'
    execFileSync('python3', ['-c', deep], { cwd: dir })
    expect(await client.files.remove(join(dir, 'tree'), { recursive: true })).toBe(3003)
    expect(readdirSync(join(dir, 'outside'))).toEqual(['keep'])
  })

  it('list streams any number of entries, with a depth', async () => {
    const dir = folder()
    for (let index = 0; index < 3000; index++) writeFileSync(join(dir, `file-${index}`), '')
    mkdirSync(join(dir, 'sub'))
    mkdirSync(join(dir, 'sub/deeper'))
    writeFileSync(join(dir, 'sub/deeper/x'), 'abc')
    symlinkSync('sub', join(dir, 'link'))
    expect(await listed(dir)).toHaveLength(3002)
    const all = await listed(dir, 9)
    expect(
      all.filter((entry) => !entry.path.startsWith('file-')).map((entry) => [entry.path, entry.kind]),
    ).toEqual([
      ['link', 'symlink'],
      ['sub', 'directory'],
      ['sub/deeper', 'directory'],
      ['sub/deeper/x', 'file'],
    ])
    await expect(listed(join(dir, 'nothing'))).rejects.toMatchObject({ code: 'file_not_found' })
    await expect(listed(join(dir, 'file-1'))).rejects.toMatchObject({ code: 'not_a_directory' })
    expect(await listed(join(dir, 'sub/deeper'))).toMatchObject([{ path: 'x', size: 3 }])
  })

  it.skipIf(process.getuid?.() !== 0)(
    'are accessed with the rights of the requested user (needs root)',
    async () => {
      const dir = folder()
      execFileSync('chmod', ['755', runner.folder, dir])
      writeFileSync(join(dir, 'secret'), 's', { mode: 0o600 })
      const user = '4242:4243'
      await expect(client.files.read(join(dir, 'secret'), { user })).rejects.toMatchObject({
        code: 'permission_denied',
      })
      await expect(client.files.write(join(dir, 'mine'), 'x', { user })).rejects.toMatchObject({
        code: 'permission_denied',
      })
      execFileSync('chmod', ['777', dir])
      await client.files.write(join(dir, 'mine'), 'x', { user })
      expect(statSync(join(dir, 'mine'))).toMatchObject({ uid: 4242, gid: 4243 })
      // The runner has its own rights again.
      expect((await client.files.read(join(dir, 'secret'))).toString()).toBe('s')
    },
  )
})

describe('watch', () => {
  /** Collects events until one matches. */
  async function upTo(
    events: AsyncGenerator<WatchEvent>,
    last: (event: WatchEvent) => boolean,
  ): Promise<string[]> {
    const seen: string[] = []
    for (;;) {
      const { value, done } = await events.next()
      if (done) return seen
      seen.push(`${value.event} ${value.path}`)
      if (last(value)) return seen
    }
  }

  it('reports files that are created, changed, moved and removed in any subfolder', async () => {
    const dir = folder()
    const events = await client.files.watch(dir, { recursive: true })
    writeFileSync(join(dir, 'a'), 'x')
    expect(await upTo(events, (event) => event.event === 'written')).toEqual([
      'created a',
      'modified a',
      'written a',
    ])
    mkdirSync(join(dir, 'sub'))
    await upTo(events, (event) => event.path === 'sub')
    await client.files.write(join(dir, 'sub/b'), 'x')
    // The event is reported whether the file was created before or after the watch of its folder.
    await upTo(
      events,
      (event) => event.path === 'sub/b' && (event.event === 'movedTo' || event.event === 'created'),
    )
    execFileSync('rm', [join(dir, 'a')])
    expect(await upTo(events, (event) => event.event === 'deleted')).toContain('deleted a')
    execFileSync('rm', ['-r', dir])
    // The watched path is gone, so the watch ends.
    expect(await upTo(events, () => false)).toContain('deleted sub')
  })

  it('watching a missing path is an error; closing the watch ends it', async () => {
    await expect(client.files.watch('/no/such')).rejects.toMatchObject({ code: 'file_not_found' })
    const events = await client.files.watch(folder())
    await events.return()
    const abort = new AbortController()
    const more = await client.files.watch(folder(), { signal: abort.signal })
    const next = more.next()
    abort.abort()
    await expect(next).rejects.toMatchObject({ code: 'aborted' })
  })

  it('an unread watch is bounded and reports its overflow', async () => {
    const dir = folder()
    const events = await client.files.watch(dir)
    const script = `import os\nfor i in range(8000):\n  open("a","w").close(); os.rename("a","b"); os.unlink("b")`
    execFileSync('python3', ['-c', script], { cwd: dir })
    expect(await runner.rssKb()).toBeLessThan(8 * 1024)
    expect(await upTo(events, (event) => event.event === 'overflow')).toContain('overflow ')
    await events.return()
  })
})

describe('tar', () => {
  it('export and import yield the same tree, with names of any bytes', async () => {
    const dir = folder()
    const from = join(dir, 'from')
    const long = `${'l'.repeat(90)}/${'m'.repeat(120)}`
    mkdirSync(join(from, long), { recursive: true })
    await client.files.write(Buffer.concat([Buffer.from(`${from}/`), strange]), 'strange')
    await client.files.write(join(from, long, 'f'), new Random(3).bytes(100_001), { mode: 0o755 })
    writeFileSync(join(from, 'empty'), '')
    symlinkSync('x'.repeat(150), join(from, 'link'))
    execFileSync('ln', [join(from, 'empty'), join(from, 'hard')])
    execFileSync('mkfifo', [join(from, 'fifo')])
    const archive = await gather((await client.files.tar(from)) as AsyncIterable<Buffer>, 10_000_000)
    // GNU tar can read the archive.
    expect(execFileSync('tar', ['-tf', '-'], { input: archive }).toString()).toContain(`${long}/f`)
    const to = join(dir, 'to')
    expect(await client.files.untar(to, archive, { parents: true })).toMatchObject({ skipped: 0 })
    const summary = (path: string) =>
      listed(path, 9).then((all) =>
        all.map((e) => [Buffer.from(e.pathBytes).toString('hex'), e.kind, e.size, e.mode, e.links]),
      )
    expect(await summary(to)).toEqual(await summary(from))
    expect(readFileSync(join(to, long, 'f'))).toEqual(readFileSync(join(from, long, 'f')))
    expect(readlinkSync(join(to, 'link'))).toBe('x'.repeat(150))
    expect(statSync(join(to, long, 'f')).mtimeMs).toBe(
      Math.floor(statSync(join(from, long, 'f')).mtimeMs / 1000) * 1000,
    )
    const one = await gather((await client.files.tar(join(from, 'empty'))) as AsyncIterable<Buffer>, 10_000)
    expect(execFileSync('tar', ['-tf', '-'], { input: one }).toString()).toBe('empty\n')
  })

  it.each(['gnu', 'pax', 'ustar', 'v7'])('reads archives of GNU tar in format %s', async (format) => {
    const dir = folder()
    mkdirSync(join(dir, 'from/d'), { recursive: true })
    writeFileSync(join(dir, 'from/d/f'), 'content')
    if (format === 'gnu' || format === 'pax') writeFileSync(join(dir, 'from', 'n'.repeat(180)), 'long')
    const archive = execFileSync('tar', ['-C', join(dir, 'from'), `--format=${format}`, '-cf', '-', '.'])
    mkdirSync(join(dir, 'to'))
    await client.files.untar(join(dir, 'to'), archive)
    expect(readFileSync(join(dir, 'to/d/f'), 'utf8')).toBe('content')
    execFileSync('diff', ['-r', join(dir, 'from'), join(dir, 'to')])
  })

  it('an archive cannot write outside its folder by name, symlink or hard link', async () => {
    const dir = folder()
    const build = (script: string): Buffer =>
      execFileSync('python3', [
        '-c',
        `import tarfile,io,sys\nt=tarfile.open(fileobj=sys.stdout.buffer,mode="w|")\ndef f(n,b=b"x",**k):\n  i=tarfile.TarInfo(n); i.size=len(b)\n  for a,v in k.items(): setattr(i,a,v)\n  if "type" in k: i.size=0\n  t.addfile(i,io.BytesIO(b))\n${script}\nt.close()`,
      ])
    const outside = join(dir, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'victim'), 'safe')
    const attacks: [string, string][] = [
      ['dot-dot', 'f("../outside/victim")'],
      ['a symlink out, then through it', `f("s",type=tarfile.SYMTYPE,linkname="${outside}")\nf("s/victim")`],
      ['a relative symlink out', 'f("s",type=tarfile.SYMTYPE,linkname="../outside")\nf("s/victim")'],
      ['a hard link out', 'f("h",type=tarfile.LNKTYPE,linkname="../outside/victim")\nf("h")'],
      [
        'a hard link through a symlink',
        `f("s",type=tarfile.SYMTYPE,linkname="${outside}")\nf("h",type=tarfile.LNKTYPE,linkname="s/victim")`,
      ],
    ]
    for (const [what, script] of attacks) {
      const to = join(dir, fresh('to'))
      mkdirSync(to)
      await expect(client.files.untar(to, build(script)), what).rejects.toMatchObject({
        code: expect.any(String),
      })
      expect(readFileSync(join(outside, 'victim'), 'utf8'), what).toBe('safe')
    }
    const to = join(dir, fresh('to'))
    mkdirSync(to)
    await client.files.untar(
      to,
      build(
        'f("/absolute/f")\nf("dev",type=tarfile.CHRTYPE)\nf("d",type=tarfile.DIRTYPE)\nf("in",type=tarfile.SYMTYPE,linkname="d")\nf("in/g")',
      ),
    )
    expect([readFileSync(join(to, 'absolute/f'), 'utf8'), readFileSync(join(to, 'd/g'), 'utf8')]).toEqual([
      'x',
      'x',
    ])
    expect(readdirSync(to).sort()).toEqual(['absolute', 'd', 'in'])
  })

  it('invalid and truncated archives are errors', async () => {
    const dir = folder()
    const archive = execFileSync('tar', ['-C', '/etc', '-cf', '-', 'passwd', 'group'])
    await expect(client.files.untar(dir, archive.subarray(0, 700))).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    const random = new Random()
    for (let round = 0; round < 60; round++) {
      const broken = Buffer.from(archive)
      for (let hits = 0; hits < 4; hits++) broken[random.below(broken.length)] = random.below(256)
      await client.files
        .untar(dir, broken)
        .catch((error) => expect(error.code, `seed ${random.seed}`).toBeTypeOf('string'))
    }
    await expect(client.files.untar(dir, random.bytes(4096))).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await client.ping()
  })
})
