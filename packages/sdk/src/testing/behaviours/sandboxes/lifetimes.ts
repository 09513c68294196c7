import { equal, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import { group } from '../../types.ts'

export const lifetimes = group('lifetimes', [
  {
    id: 'expires-at',
    name: 'A sandbox with a lifetime reports its end; timeout is the older name of lifetimeMs',
    needs: ['lifetime'],
    options: ['lifetimeMs'],
    async run(t) {
      for (const options of [{ lifetimeMs: 3_600_000 }, { timeout: 3_600_000 }]) {
        const { expiresAt, createdAt } = await (await t.create(options)).info()
        ok(expiresAt instanceof Date, 'expiresAt is missing')
        if (createdAt)
          ok(
            Math.abs(expiresAt.getTime() - createdAt.getTime() - 3_600_000) < 60_000,
            `it ends at ${expiresAt.toISOString()}, created at ${createdAt.toISOString()}`,
          )
      }
    },
  },
  {
    id: 'expires',
    name: 'At the end of its lifetime a sandbox is stopped, and its programs have ended',
    needs: ['lifetime'],
    options: ['lifetimeMs'],
    async run(t) {
      const sandbox = await t.create({ lifetimeMs: t.limits.lifetimeMs })
      const process = await t.spawn(sandbox, t.commands.wait(), { detached: true })
      const reader = new EventReader(process)
      await reader.until('ready\n')
      await reader.exit().catch(() => {})
      await t.eventually(async () => (await sandbox.status()) === 'stopped', 'The sandbox is stopped')
      await rejects(t.run(sandbox, t.commands.exit(0)), 'not_running', 'runCommand')
    },
  },
  {
    id: 'expired-files-kept',
    name: 'After the end of its lifetime, get() returns the sandbox with its files',
    needs: ['lifetime', 'stop'],
    options: ['lifetimeMs'],
    async run(t) {
      const sandbox = await t.create({ lifetimeMs: t.limits.lifetimeMs })
      await sandbox.files.writeFile('note', 'kept')
      await t.eventually(async () => (await sandbox.status()) === 'stopped', 'The sandbox is stopped')
      const again = await t.provider.get(sandbox.id)
      equal(
        [await again.status(), await again.files.readFile('note', 'utf8')],
        ['running', 'kept'],
        'status and content',
      )
    },
  },
  {
    id: 'extend',
    name: 'extendTimeout() moves the end, counted from now',
    needs: ['lifetime'],
    options: ['lifetimeMs'],
    async run(t) {
      const sandbox = await t.create({ lifetimeMs: 60_000 })
      const before = (await sandbox.info()).expiresAt!.getTime()
      await sandbox.extendTimeout(7_200_000)
      const after = (await sandbox.info()).expiresAt!.getTime()
      ok(after - before > 7_000_000 && after - before < 7_200_000, `the end moved by ${after - before} ms`)
    },
  },
  {
    id: 'extend-never-shortens',
    name: 'extendTimeout() never shortens a lifetime, and calls do not add up',
    needs: ['lifetime'],
    options: ['lifetimeMs'],
    async run(t) {
      const sandbox = await t.create({ lifetimeMs: 3_600_000 })
      const before = (await sandbox.info()).expiresAt!.getTime()
      await sandbox.extendTimeout(1000)
      equal((await sandbox.info()).expiresAt!.getTime(), before, 'the end after a shorter extension')
      await sandbox.extendTimeout(3_600_000)
      await sandbox.extendTimeout(3_600_000)
      const moved = (await sandbox.info()).expiresAt!.getTime() - before
      ok(
        moved >= 0 && moved < 600_000,
        `the end moved by ${moved} ms after two extensions by as much as it had`,
      )
    },
  },
  {
    id: 'extend-saves',
    name: 'A sandbox whose lifetime was extended in time still runs after its first end',
    needs: ['lifetime'],
    options: ['lifetimeMs'],
    async run(t) {
      const saved = await t.create({ lifetimeMs: t.limits.lifetimeMs })
      await saved.extendTimeout(600_000)
      // The second sandbox is created later with the same lifetime: when it ends, the first end of the other has
      // passed.
      const other = await t.create({ lifetimeMs: t.limits.lifetimeMs })
      await t.eventually(async () => (await other.status()) === 'stopped', 'The other sandbox is stopped')
      equal(
        [await saved.status(), (await t.run(saved, t.commands.print('alive'))).stdout],
        ['running', 'alive'],
        'status and stdout',
      )
    },
  },
  {
    id: 'activity',
    name: 'refreshActivity() resets the idle timer, does not start a stopped sandbox, and throws for a destroyed one',
    needs: ['activity', 'stop'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.refreshActivity()
      equal((await t.run(sandbox, t.commands.print('on'))).stdout, 'on', 'stdout')
      await sandbox.stop()
      await rejects(sandbox.refreshActivity(), 'not_running', 'refreshActivity() of a stopped one')
      equal(await sandbox.status(), 'stopped', 'status')
      await sandbox.destroy()
      await rejects(sandbox.refreshActivity(), 'not_found', 'refreshActivity() of a destroyed one')
    },
  },
])
