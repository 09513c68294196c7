import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { readRecord, writeRecord } from '@sandkasten/sdk/internal'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider } from '../engine-provider.ts'

const run = promisify(execFile)
const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-snapshots-'))
afterAll(() => rm(root, { recursive: true, force: true }))
const skipped = await reasonToSkip()
const provider = new EngineProvider({ isolator: 'oci', root })

type Sandbox = Awaited<ReturnType<EngineProvider['create']>>

const upperOf = ({ sandboxId }: Sandbox, from = root) =>
  path.join(from, 'sandboxes', sandboxId, 'disk/disk/upper')
const folderOf = ({ sandboxId }: Sandbox) => path.join(root, 'sandboxes', sandboxId)
const layersOf = async (sandbox: Sandbox): Promise<string[]> =>
  (await readRecord(folderOf(sandbox)))!.extra!.layers as string[]
const layersLeft = (from = root) =>
  existsSync(path.join(from, 'layers'))
    ? readdirSync(path.join(from, 'layers')).filter((name) => /^\.?[a-z2-7]{16}$/.test(name))
    : []

async function sh(sandbox: Sandbox, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await sandbox.runCommand({ cmd: 'bash', args: ['-euc', script] })
  if (exitCode !== 0) throw new Error(`${script}: ${stderr}`)
  return stdout
}

/** The working directory as seen from inside: kinds, modes, owners, sizes, times, links, blocks, content, attributes. */
const look = (sandbox: Sandbox) =>
  sh(
    sandbox,
    `cd /workspace
    find . -printf '%p %y %m %U:%G %T@ %l\\n' | LC_ALL=C sort
    find . -type f -printf '%p %n %s\\n' | LC_ALL=C sort; [ $(stat -c %b holes) -lt 1000 ] && echo sparse
    find . -type f -readable -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    tar --xattrs --xattrs-include='*' --format=pax --ignore-failed-read --warning=none -cf - a 2>/dev/null | grep -ao 'SCHILY.xattr[^=]*=[a-z ]*'
    find . -samefile hard | LC_ALL=C sort`,
  )

/** Files that are hard to copy. The test adds root-only files from outside while the sandbox is stopped. */
async function fill(sandbox: Sandbox): Promise<void> {
  await sh(
    sandbox,
    `mkdir -p a/b gone/deep replaced; echo one > a/one; ln a/one hard; ln a/one a/b/again; ln -s /nowhere a/link; mkfifo pipe
    perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un("sock")) or die'
    truncate -s 4M holes; printf x | dd of=holes bs=1 seek=2000000 conv=notrunc status=none
    echo data > gone/deep/file; echo data > replaced/file; echo data > deleted; echo 'name' > "$(printf 'new\\nline')"
    touch -d '2001-02-03 04:05:06.123456789' a/one; touch -hd '1999-01-01 00:00:00.5' a/link; chmod 4711 a/b/again; chmod 1770 a`,
  )
  await sandbox.stop()
  const outside = path.join(upperOf(sandbox), 'workspace')
  await run('bash', [
    '-euc',
    `cd "$0"; echo root > a/of-root; chmod 600 a/of-root; echo web > a/of-web; chown 33:33 a/of-web; mkdir a/roots; chown 0:0 a/roots; mknod a/null c 1 3
    printf '%s' "$1" | base64 -d | tar --xattrs --xattrs-include='*' -C a -xf -; chown 1000:1000 a/noted; touch -d '2002-02-02' a`,
    outside,
    tarWithAttribute('noted', 'user.note', 'attribute kept').toString('base64'),
  ])
}

/** Deletes and replaces files of the layer below. */
const change = (sandbox: Sandbox) =>
  sh(
    sandbox,
    'rm -r gone deleted replaced; echo now a file > replaced; mkdir deleted; echo > deleted/new; echo more >> a/one',
  )

describe('snapshots and forks on oci', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })

  it('are exact copies of stopped and running sandboxes, whichever ids the copy has', async () => {
    const sandbox = await provider.create()
    const made: Sandbox[] = [sandbox]
    const snapshots: string[] = []
    try {
      await fill(sandbox)
      snapshots.push((await sandbox.snapshot({ name: 'stopped' })).snapshotId)
      await sandbox.start()
      const first = await look(sandbox)
      expect(first).toContain('attribute kept')
      expect(first).toContain('sparse')
      expect(first).toMatch(/a\/of-web f 644 33:33/)
      await change(sandbox)
      const second = await look(sandbox)
      snapshots.push((await sandbox.snapshot({ name: 'running' })).snapshotId)
      const [fork] = (await sandbox.fork()) as [Sandbox]
      made.push(fork)
      made.push(await provider.create({ snapshotId: snapshots[0]! }))
      made.push(await provider.create({ snapshotId: snapshots[1]! }))
      const ids = made.map(({ sandboxId }) =>
        readFileSync(path.join(root, 'sandboxes', sandboxId, 'disk/range'), 'utf8'),
      )
      expect(new Set(ids).size).toBe(4)
      expect(await look(fork)).toBe(second)
      expect(await look(made[2]!)).toBe(first)
      expect(await look(made[3]!)).toBe(second)
      const infos = await provider.listSnapshots()
      expect(infos.map(({ name }) => name)).toEqual(['stopped', 'running'])
      for (const { sizeBytes } of infos) expect(sizeBytes).toBeGreaterThan(4096)
      // Changes of the copy do not affect the others, even in shared files.
      await sh(made[3]!, 'echo mine > a/one; rm -r deleted')
      expect(await look(sandbox)).toBe(second)
    } finally {
      for (const each of made) await each.destroy()
      for (const each of snapshots) await provider.deleteSnapshot(each)
    }
    expect(layersLeft()).toEqual([])
  }, 30_000)

  it('all forks of a running sandbox show the same consistent state', async () => {
    const sandbox = await provider.create()
    const forks: Sandbox[] = []
    try {
      await sh(sandbox, 'echo 0 > one; echo 0 > two')
      await sandbox.spawn({
        cmd: 'bash',
        args: [
          '-c',
          'for ((i = 1; ; i++)); do echo $i > one.new; mv one.new one; echo $i > two.new; mv two.new two; done',
        ],
      })
      forks.push(...((await sandbox.fork({ count: 3 })) as Sandbox[]))
      const seen = await Promise.all(forks.map((fork) => sh(fork, 'cat one two')))
      expect(new Set(seen).size).toBe(1)
      const [one, two] = seen[0]!.trim().split('\n').map(Number) as [number, number]
      expect(one - two).toBeGreaterThanOrEqual(0)
      expect(one - two).toBeLessThanOrEqual(1)
    } finally {
      for (const each of [sandbox, ...forks]) await each.destroy()
    }
    expect(layersLeft()).toEqual([])
  }, 30_000)

  it('an unchanged stopped sandbox gets no additional layer', async () => {
    const sandbox = await provider.create()
    const forks: Sandbox[] = []
    try {
      await sh(sandbox, 'echo here > note')
      await sandbox.stop()
      for (let turn = 0; turn < 3; turn++) forks.push(...((await sandbox.fork()) as Sandbox[]))
      expect(await layersOf(sandbox)).toHaveLength(1)
      expect(await sandbox.status()).toBe('stopped')
      expect(await Promise.all(forks.map((fork) => sh(fork, 'cat note')))).toEqual([
        'here\n',
        'here\n',
        'here\n',
      ])
      await sandbox.start()
      expect(await sh(sandbox, 'cat note')).toBe('here\n')
    } finally {
      for (const each of [sandbox, ...forks]) await each.destroy()
    }
  }, 30_000)

  it('a paused sandbox can be copied and stays paused', async () => {
    const sandbox = await provider.create()
    const made: Sandbox[] = [sandbox]
    try {
      await sh(sandbox, 'echo here > note')
      await sandbox.pause()
      made.push(...((await sandbox.fork()) as Sandbox[]))
      expect(await sandbox.status()).toBe('paused')
      expect(await sh(made[1]!, 'cat note')).toBe('here\n')
      await sandbox.resume()
      expect(await sh(sandbox, 'cat note')).toBe('here\n')
    } finally {
      for (const each of made) await each.destroy()
    }
  }, 30_000)

  it('a deep stack is merged in the background with the same content', async () => {
    const sandbox = await provider.create()
    const snapshots: string[] = []
    try {
      for (let turn = 0; turn < 22; turn++) {
        await sh(
          sandbox,
          `echo ${turn} > file${turn}; rm -f file${turn - 2}; rm -rf dir; mkdir dir; echo > dir/${turn}; ls`,
        )
        await sandbox.stop()
        snapshots.push((await sandbox.snapshot()).snapshotId)
        await provider.idle()
        await sandbox.start()
      }
      expect((await layersOf(sandbox)).length).toBeLessThanOrEqual(3)
      expect(await sh(sandbox, 'ls . dir')).toBe('.:\ndir\nfile20\nfile21\n\ndir:\n21\n')
      const copy = await provider.create({ snapshotId: snapshots.at(-1)! })
      expect(await sh(copy, 'ls . dir')).toBe('.:\ndir\nfile20\nfile21\n\ndir:\n21\n')
      await copy.destroy()
    } finally {
      await sandbox.destroy()
      for (const each of snapshots) await provider.deleteSnapshot(each)
    }
    expect(layersLeft()).toEqual([])
  }, 60_000)

  it('forks of forks have a bounded number of layers', async () => {
    let newest = await provider.create()
    try {
      for (let turn = 0; turn < 23; turn++) {
        await sh(newest, `echo ${turn} > file${turn}; rm -f file${turn - 2}`)
        const [fork] = (await newest.fork()) as [Sandbox]
        await newest.destroy()
        newest = fork
      }
      expect((await layersOf(newest)).length).toBeLessThanOrEqual(4)
      expect(await sh(newest, 'ls')).toBe('file21\nfile22\n')
      expect(layersLeft().sort()).toEqual([...(await layersOf(newest))].sort())
    } finally {
      await newest.destroy()
    }
    expect(layersLeft()).toEqual([])
  }, 60_000)

  it('a disk with a limit is copied, running or stopped, with its owners; the copy has its own limit', async () => {
    const sandbox = await provider.create({ resources: { diskMb: 32 } })
    const made: Sandbox[] = [sandbox]
    const snapshots: string[] = []
    try {
      await sh(sandbox, 'mkdir d; echo one > d/note; ln d/note hard; chmod 4711 d/note')
      const shown = 'find . -printf "%p %y %m %U:%G %n %T@\\n" | LC_ALL=C sort; cat hard'
      const first = await sh(sandbox, shown)
      snapshots.push((await sandbox.snapshot()).snapshotId)
      await sandbox.stop()
      made.push(...((await sandbox.fork()) as Sandbox[]))
      made.push(await provider.create({ snapshotId: snapshots[0]! }))
      for (const copy of made.slice(1)) expect(await sh(copy, shown)).toBe(first)
      expect(await sh(made[1]!, 'head -c 64M /dev/zero > bomb 2>/dev/null || echo full')).toBe('full\n')
      await sandbox.start()
      expect(await sh(sandbox, shown)).toBe(first)
    } finally {
      for (const each of made) await each.destroy()
      for (const each of snapshots) await provider.deleteSnapshot(each)
    }
    expect(layersLeft()).toEqual([])
  }, 30_000)

  it('the error names a missing layer, and other sandboxes are not affected', async () => {
    const sandbox = await provider.create()
    await sh(sandbox, 'echo here > note')
    await sandbox.stop()
    const { snapshotId } = await sandbox.snapshot()
    const [layer] = (await layersOf(sandbox)) as [string]
    const elsewhere = path.join(root, 'elsewhere')
    renameSync(path.join(root, 'layers', layer), elsewhere)
    try {
      const lost = {
        code: 'internal',
        message: expect.stringContaining(layer),
        hint: expect.stringContaining('backup'),
      }
      await expect(provider.create({ snapshotId })).rejects.toMatchObject(lost)
      await expect(sandbox.start()).rejects.toMatchObject(lost)
      expect((await provider.list()).map(({ sandboxId }) => sandboxId)).toEqual([sandbox.sandboxId])
      renameSync(elsewhere, path.join(root, 'layers', layer))
      await sandbox.start()
      expect(await sh(sandbox, 'cat note')).toBe('here\n')
    } finally {
      await sandbox.destroy()
      await provider.deleteSnapshot(snapshotId)
    }
    expect(layersLeft()).toEqual([])
  })

  it('a process that dies while it waits for a hold leaves no sandbox frozen', async () => {
    const sandbox = await provider.create()
    try {
      for (let turn = 0; turn < 20; turn++)
        await new Promise<void>((resolve, reject) => {
          const socket = connect(`/run/sandkasten/${sandbox.sandboxId}/shim.sock`)
          socket.once('error', reject)
          socket.once('close', () => resolve())
          socket.once('connect', () => socket.write('hold\n', () => socket.destroy()))
        })
      expect(await sh(sandbox, 'echo still here')).toBe('still here\n')
    } finally {
      await sandbox.destroy()
    }
  })

  it('an image together with a snapshot is rejected', async () => {
    const options = { snapshotId: 'a'.repeat(16), image: 'host' }
    await expect(provider.create(options)).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  // The states in which a process can be killed while it seals a stopped disk.
  it.each([
    ['the record says `sealing`', 0],
    ['the disk is moved', 1],
    ['an empty disk is in its place', 2],
    ['the layer is complete but not in the record', 3],
  ])('killed when %s: the sandbox is unchanged', async (_, steps) => {
    const sandbox = await provider.create()
    try {
      await sh(sandbox, 'echo kept > note')
      await sandbox.stop()
      const [upper, id] = [upperOf(sandbox), 'b'.repeat(16)]
      const folder = path.join(root, 'layers', `.${id}`)
      mkdirSync(folder, { recursive: true })
      mkdirSync(`${upper}.next`)
      const record = (await readRecord(folderOf(sandbox)))!
      await writeRecord(folderOf(sandbox), { ...record, extra: { ...record.extra, sealing: id } })
      if (steps > 0) renameSync(upper, path.join(folder, 'tree'))
      if (steps > 1) renameSync(`${upper}.next`, upper)
      if (steps > 2) renameSync(folder, path.join(root, 'layers', id))
      await new EngineProvider({ isolator: 'oci', root }).sweep()
      const found = await new EngineProvider({ isolator: 'oci', root }).get(sandbox.id)
      expect(await sh(found, 'cat note')).toBe('kept\n')
      expect(await layersOf(sandbox)).toEqual(steps > 0 ? [id] : [])
      expect(layersLeft()).toEqual(steps > 0 ? [id] : [])
      expect(existsSync(`${upper}.next`)).toBe(false)
    } finally {
      await sandbox.destroy()
      rmSync(path.join(root, 'layers'), { recursive: true, force: true })
    }
  })

  it('several processes copy the same sandbox at once', async () => {
    const sandbox = await provider.create()
    try {
      await sh(sandbox, 'echo here > note')
      const code = `
        const sandbox = await provider.get('${sandbox.id}', { resume: false })
        for (let turn = 0; turn < 3; turn++) {
          const { snapshotId } = await sandbox.snapshot()
          const copy = await provider.create({ snapshotId })
          await provider.deleteSnapshot(snapshotId)
          const [fork] = await copy.fork()
          console.log((await fork.runCommand({ cmd: 'cat', args: ['note'] })).stdout.trim())
          await copy.destroy()
          await fork.destroy()
        }`
      const said = await Promise.all([inAnotherProcess(code), inAnotherProcess(code)])
      expect(said).toEqual(['here\nhere\nhere', 'here\nhere\nhere'])
    } finally {
      await sandbox.destroy()
    }
    expect(layersLeft()).toEqual([])
  }, 60_000)

  it('deleting a snapshot during a create yields a complete sandbox or an error', async () => {
    const sandbox = await provider.create()
    try {
      for (let turn = 0; turn < 8; turn += 1) {
        await sh(sandbox, `echo ${turn} > note`)
        const { snapshotId } = await sandbox.snapshot()
        const [made] = await Promise.allSettled([
          provider.create({ snapshotId }),
          new Promise((resolve) => setTimeout(resolve, turn)).then(() => provider.deleteSnapshot(snapshotId)),
        ])
        if (made.status === 'rejected') expect(made.reason).toMatchObject({ code: 'not_found' })
        else {
          await provider.sweep()
          expect(await sh(made.value, 'cat note')).toBe(`${turn}\n`)
          await made.value.stop()
          await made.value.start()
          expect(await sh(made.value, 'cat note')).toBe(`${turn}\n`)
          await made.value.destroy()
        }
        expect(await provider.list()).toHaveLength(1)
      }
    } finally {
      await sandbox.destroy()
    }
    expect(layersLeft()).toEqual([])
  }, 60_000)

  it('on a full disk a snapshot fails with a clear error and leaves nothing partial', async ({ skip }) => {
    const disk = await smallDisk().catch((error: Error) => skip(`no small disk here: ${error.message}`))
    const small = new EngineProvider({ isolator: 'oci', root: disk.folder })
    try {
      const sandbox = await small.create()
      await sh(sandbox, 'head -c 40000000 /dev/urandom > big; echo here > note')
      await expect(sandbox.snapshot()).rejects.toMatchObject({ code: 'disk_full' })
      expect(layersLeft(disk.folder)).toEqual([])
      expect(await small.listSnapshots()).toEqual([])
      expect(await sh(sandbox, 'cat note')).toBe('here\n')
      // Sealing a stopped sandbox needs no room.
      await sandbox.stop()
      const { snapshotId } = await sandbox.snapshot()
      const copy = await small.create({ snapshotId })
      expect(await sh(copy, 'cat note; stat -c %s big')).toBe('here\n40000000\n')
      await copy.destroy()
      await sandbox.destroy()
      await small.deleteSnapshot(snapshotId)
      expect(layersLeft(disk.folder)).toEqual([])
    } finally {
      await disk.remove()
    }
  }, 30_000)
})

async function inAnotherProcess(code: string): Promise<string> {
  const module = JSON.stringify(new URL('../engine-provider.ts', import.meta.url).href)
  const script = `const { EngineProvider } = await import(${module})
    const provider = new EngineProvider({ isolator: 'oci', root: ${JSON.stringify(root)} })
    ${code}`
  const args = ['--conditions=sandkasten-source', '--input-type=module', '-e', script]
  return (await run(process.execPath, args)).stdout.trim()
}

/** A separate file system with 64 MB. */
async function smallDisk(): Promise<{ folder: string; remove(): Promise<void> }> {
  const place = await mkdtemp(path.join(tmpdir(), 'sandkasten-small-'))
  const [image, folder] = [path.join(place, 'image'), path.join(place, 'disk')]
  mkdirSync(folder)
  try {
    await run('truncate', ['-s', '64M', image])
    await run('mkfs.ext4', ['-q', '-O', '^has_journal', image])
    await run('mount', ['-o', 'loop', image, folder])
  } catch (error) {
    await rm(place, { recursive: true })
    throw error
  }
  return {
    folder,
    async remove() {
      await run('umount', [folder])
      await rm(place, { recursive: true })
    },
  }
}

/** A tar archive with one empty file that has an extended attribute: Node has no call to set one. */
function tarWithAttribute(name: string, attribute: string, value: string): Buffer {
  const entry = (path: string, type: string, content: string) => {
    const header = Buffer.alloc(512)
    header.write(path, 0)
    header.write('0000644\0', 100)
    header.write('0000000\0'.repeat(2), 108)
    header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124)
    header.write('00000000000\0', 136)
    header.write('        ', 148)
    header.write(type, 156)
    header.write('ustar\x0000', 257)
    const sum = header.reduce((total, byte) => total + byte, 0)
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    return [header, Buffer.from(content), Buffer.alloc((512 - (content.length % 512)) % 512)]
  }
  const fact = ` SCHILY.xattr.${attribute}=${value}\n`
  const length = fact.length + String(fact.length + 2).length
  return Buffer.concat([
    ...entry('pax', 'x', `${length}${fact}`),
    ...entry(name, '0', ''),
    Buffer.alloc(1024),
  ])
}
