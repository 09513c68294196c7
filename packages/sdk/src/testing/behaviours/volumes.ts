import { SandboxError } from '../../errors.ts'
import { equal, includes, ok, rejects } from '../assert.ts'
import type { VolumeBehaviour } from '../volumes.ts'

const MiB = 1024 * 1024

export const volumeBehaviours: readonly VolumeBehaviour[] = [
  {
    id: 'volume-outlives',
    name: 'A volume keeps its files when the sandbox that wrote them is destroyed, at whatever path it is mounted',
    async run(t) {
      const { name } = await t.volume()
      const first = await t.mounting({ name, target: '/data' })
      equal(await t.sh(first, 'echo kept > /data/note; cat /data/note'), 'kept', 'output of the writer')
      await first.destroy()
      const second = await t.mounting({ name, target: '/elsewhere' })
      equal(await t.sh(second, 'cat /elsewhere/note'), 'kept', 'content after the first sandbox')
      equal(await t.sh(second, 'echo more > /elsewhere/note; cat /elsewhere/note'), 'more', 'after a change')
    },
  },
  {
    id: 'volume-readers',
    name: 'Sandboxes that mount a volume read-only see changes of its writer at once, and cannot write',
    async run(t) {
      const { name } = await t.volume()
      const writer = await t.mounting({ name, target: '/data' })
      for (const index of [1, 2]) {
        const reader = await t.mounting({ name, target: '/data', readOnly: true })
        await t.sh(writer, `echo news-${index} > /data/note`)
        equal(await t.sh(reader, 'cat /data/note'), `news-${index}`, `content for reader ${index}`)
        includes(await t.sh(reader, 'echo mine > /data/note'), 'Read-only file system', 'output of a write')
        equal(await t.sh(writer, 'cat /data/note'), `news-${index}`, 'content after a reader’s attempt')
      }
    },
  },
  {
    id: 'volume-one-writer',
    name: 'A second writer is refused with conflict and leaves no sandbox, until the first one stops',
    async run(t) {
      const { name } = await t.volume()
      const first = await t.mounting({ name, target: '/data' })
      const before = (await t.provider.list()).length
      const refused = await rejects(
        () => t.mounting({ name, target: '/data' }),
        'conflict',
        'a second writer',
      )
      includes(refused.message, first.sandboxId, 'the message, which names the writer')
      equal((await t.provider.list()).length, before, 'number of sandboxes after the refusal')
      await first.stop()
      const second = await t.mounting({ name, target: '/data' })
      await rejects(() => first.start(), 'conflict', 'start() of the first writer beside the second')
      await second.destroy()
      await first.start()
      equal(await t.sh(first, 'echo again > /data/note; cat /data/note'), 'again', 'output after the start')
    },
  },
  {
    id: 'volume-race',
    name: 'Only one of several writers that are created at the same time gets the volume',
    async run(t) {
      const { name } = await t.volume()
      const results = await Promise.allSettled([1, 2, 3].map(() => t.mounting({ name, target: '/data' })))
      const refused = results.filter((result) => result.status === 'rejected')
      equal(refused.length, 2, 'number of refused writers')
      for (const { reason } of refused)
        ok(SandboxError.is(reason, 'conflict'), `a refused writer: expected conflict, got ${reason}`)
    },
  },
  {
    id: 'volume-fork',
    name: 'A fork of a reader reads the volume; a fork of a writer is refused with conflict',
    async run(t) {
      const { name } = await t.volume()
      const writer = await t.mounting({ name, target: '/data' })
      await t.sh(writer, 'echo kept > /data/note')
      await rejects(() => writer.fork(), 'conflict', 'fork() of a writer')
      const reader = await t.mounting({ name, target: '/data', readOnly: true })
      for (const copy of await reader.fork({ count: 2 })) {
        if (copy instanceof Error) throw copy
        equal(await t.sh(t.adopt(copy), 'cat /data/note'), 'kept', 'content for the fork')
      }
    },
  },
  {
    id: 'volume-in-use',
    name: 'remove() throws conflict while a sandbox, even a stopped one, mounts the volume; then true, then false',
    async run(t) {
      const { name } = await t.volume()
      const sandbox = await t.mounting({ name, target: '/data', readOnly: true })
      await rejects(() => t.volumes.remove(name), 'conflict', 'remove() beside a reader')
      await sandbox.stop()
      await rejects(() => t.volumes.remove(name), 'conflict', 'remove() beside a stopped reader')
      await sandbox.destroy()
      equal([await t.volumes.remove(name), await t.volumes.remove(name)], [true, false], 'remove(), twice')
      await rejects(() => t.volumes.get(name), 'not_found', 'get() after remove()')
      const again = await t.volume({ name })
      equal(again.name, name, 'name of a new volume with the old name')
    },
  },
  {
    id: 'volume-missing',
    name: 'Mounting a volume that does not exist throws not_found and leaves no sandbox',
    async run(t) {
      const before = (await t.provider.list()).length
      await rejects(() => t.mounting({ name: 'kit-missing', target: '/data' }), 'not_found', 'create()')
      await rejects(() => t.volumes.get('kit-missing'), 'not_found', 'get()')
      equal(await t.volumes.remove('kit-missing'), false, 'remove()')
      equal((await t.provider.list()).length, before, 'number of sandboxes')
    },
  },
  {
    id: 'volume-info',
    name: 'get() and list() report the volume, and the sandbox that writes to it',
    async run(t) {
      const began = Date.now()
      const { name } = await t.volume()
      const { createdAt, writer } = await t.volumes.get(name)
      ok(Math.abs(createdAt.getTime() - began) < 60_000, 'createdAt: expected now')
      equal(writer, undefined, 'writer of a new volume')
      const sandbox = await t.mounting({ name, target: '/data' })
      await t.sh(sandbox, 'head -c 3000000 /dev/urandom > /data/large; sync /data/large')
      const written = await t.volumes.get(name)
      equal(written.writer, sandbox.sandboxId, 'writer while a sandbox writes')
      ok((written.sizeBytes ?? 0) >= 3_000_000, `sizeBytes: expected 3 MB, got ${written.sizeBytes}`)
      const listed = (await t.volumes.list()).filter((volume) => volume.name === name)
      equal(
        listed.map((volume) => volume.writer),
        [sandbox.sandboxId],
        'writer in list()',
      )
      await sandbox.stop()
      equal((await t.volumes.get(name)).writer, undefined, 'writer after the stop')
    },
  },
  {
    id: 'volume-names',
    name: 'create() throws conflict for a name that exists, and invalid_argument for names that are not plain',
    async run(t) {
      const { name } = await t.volume()
      await rejects(() => t.volumes.create(name), 'conflict', 'create() with the same name')
      for (const bad of ['', '..', '../etc', 'a/b', '.hidden', '-rf', 'a b', 'a\0b', 'x'.repeat(65)]) {
        await rejects(() => t.volumes.create(bad), 'invalid_argument', `create(${JSON.stringify(bad)})`)
        const mount = { name: bad, target: '/data' }
        await rejects(() => t.mounting(mount), 'invalid_argument', `mounting ${JSON.stringify(bad)}`)
      }
      for (const target of ['data', '/', '/proc/data', '/etc'])
        await rejects(() => t.mounting({ name, target }), 'invalid_argument', `the target ${target}`)
    },
  },
  {
    id: 'volume-limit',
    name: 'A volume with limitMb holds no more, or limitMb throws unsupported',
    async run(t) {
      if (!t.canLimit) {
        await rejects(() => t.volume({ limitMb: 16 }), 'unsupported', 'create() with limitMb')
        return
      }
      const { name, limitMb } = await t.volume({ limitMb: 16 })
      equal(limitMb, 16, 'limitMb')
      const sandbox = await t.mounting({ name, target: '/data' })
      const write = 'head -c 20000000 /dev/urandom > /data/large && echo all'
      includes(await t.sh(sandbox, write), 'No space left on device', 'output of a write beyond the limit')
      const { sizeBytes = 0 } = await t.volumes.get(name)
      ok(sizeBytes <= 16 * MiB, `sizeBytes: expected at most 16 MiB, got ${sizeBytes}`)
      equal(await t.sh(sandbox, 'echo fine > own && cat own'), 'fine', 'a write to the sandbox’s own disk')
    },
  },
]
