import { SandboxError } from '../../../errors.ts'
import type { SandboxHandle } from '../../../spec/index.ts'
import { equal, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import type { Trial } from '../../trial.ts'
import { type AnySandbox, group } from '../../types.ts'

export const copies = group('snapshots and forks', [
  {
    id: 'snapshot',
    name: 'A sandbox created from a snapshot has the files of the snapshot, and is independent',
    needs: ['snapshot'],
    options: ['snapshotId'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('dir/note', 'then')
      await sandbox.files.writeFile('tool', t.commands.script, { mode: 0o755 })
      const snapshotId = await snapshot(t, sandbox)
      await sandbox.files.writeFile('dir/note', 'later')
      const copy = await t.create({ snapshotId })
      equal(await copy.files.readFile('dir/note', 'utf8'), 'then', 'content in the copy')
      equal(
        (await copy.runCommand({ cmd: './tool' })).stdout,
        'from a script',
        'stdout of an executable in the copy',
      )
      await copy.files.writeFile('dir/note', 'changed in the copy')
      const second = await t.create({ snapshotId })
      equal(
        [await sandbox.files.readFile('dir/note', 'utf8'), await second.files.readFile('dir/note', 'utf8')],
        ['later', 'then'],
        'content in the first and in a second copy',
      )
    },
  },
  {
    id: 'snapshot-list',
    name: 'listSnapshots() includes the snapshot; deleteSnapshot() returns true once, then false',
    needs: ['snapshot'],
    async run(t) {
      const sandbox = await t.create()
      const name = t.unique('snapshot')
      const { snapshotId } = await sandbox.snapshot({ name })
      t.later(() => t.provider.deleteSnapshot(snapshotId))
      const info = (await t.provider.listSnapshots()).find((one) => one.snapshotId === snapshotId)
      ok(info, 'It is not listed')
      equal(info.name ?? name, name, 'name')
      equal(
        [await t.provider.deleteSnapshot(snapshotId), await t.provider.deleteSnapshot(snapshotId)],
        [true, false],
        'deleteSnapshot() and once more',
      )
      ok(
        !(await t.provider.listSnapshots()).some((one) => one.snapshotId === snapshotId),
        'It is still listed',
      )
    },
  },
  {
    id: 'snapshot-outlives',
    name: 'A snapshot outlives its sandbox, and a sandbox made from it outlives the snapshot',
    needs: ['snapshot'],
    options: ['snapshotId'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('note', 'kept')
      const snapshotId = await snapshot(t, sandbox)
      await sandbox.destroy()
      const copy = await t.create({ snapshotId })
      await t.provider.deleteSnapshot(snapshotId)
      equal(await copy.files.readFile('note', 'utf8'), 'kept', 'content')
    },
  },
  {
    id: 'snapshot-missing',
    name: 'Creating from a missing snapshot throws not_found, and leaves no sandbox',
    needs: ['snapshot'],
    options: ['snapshotId', 'labels'],
    async run(t) {
      const labels = { kit: t.unique('label') }
      await rejects(
        async () => t.adopt(await t.provider.create({ snapshotId: 'no-such-snapshot', labels })),
        'not_found',
        'create()',
      )
      await rejects(
        async () => t.adopt(await t.provider.create({ snapshotId: '../..', labels })),
        ['not_found', 'invalid_argument'],
        'create() with a path',
      )
      equal((await t.provider.list({ labels })).length, 0, 'number of sandboxes')
    },
  },
  {
    id: 'snapshot-without-env',
    name: 'envVars, which may contain secrets, are not part of a snapshot',
    needs: ['snapshot'],
    options: ['snapshotId', 'envVars'],
    async run(t) {
      const sandbox = await t.create({ envVars: { KIT_SECRET: 'secret' } })
      const copy = await t.create({ snapshotId: await snapshot(t, sandbox) })
      equal(
        (await t.run(copy, t.commands.printEnv('KIT_SECRET'))).stdout,
        '<unset>',
        'the variable in the copy',
      )
    },
  },
  {
    id: 'snapshot-programs',
    name: 'A running program survives a snapshot if snapshotInterrupts is false, and has ended if it is true',
    needs: ['snapshot'],
    run: (t) => programsAcross(t, async (sandbox) => void (await snapshot(t, sandbox))),
  },
  {
    id: 'fork-programs',
    name: 'A running program survives a fork if snapshotInterrupts is false, and has ended if it is true',
    needs: ['fork'],
    run: (t) => programsAcross(t, async (sandbox) => void (await forks(t, sandbox))),
  },
  {
    id: 'fork',
    name: 'A fork is a running copy with the current files, independent of the original',
    needs: ['fork'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('note', 'before')
      const [copy] = await forks(t, sandbox)
      ok(copy && copy.id !== sandbox.id, 'The copy has the same id')
      equal(
        [await copy.status(), await copy.files.readFile('note', 'utf8')],
        ['running', 'before'],
        'status and content',
      )
      await copy.files.writeFile('note', 'copy')
      await sandbox.files.writeFile('note', 'original')
      equal(
        [await copy.files.readFile('note', 'utf8'), await sandbox.files.readFile('note', 'utf8')],
        ['copy', 'original'],
        'content of the copy and of the original',
      )
      equal((await t.run(copy, t.commands.print('x'))).stdout, 'x', 'stdout in the copy')
    },
  },
  {
    id: 'fork-count',
    name: 'fork({ count: 3 }) creates three independent copies',
    needs: ['fork'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('note', 'before')
      const all = await forks(t, sandbox, 3)
      equal(new Set(all.map(({ id }) => id)).size, 3, 'number of different ids')
      await Promise.all(all.map((copy, index) => copy.files.writeFile('note', `${index}`)))
      equal(
        await Promise.all(all.map((copy) => copy.files.readFile('note', 'utf8'))),
        ['0', '1', '2'],
        'contents',
      )
      equal(await sandbox.files.readFile('note', 'utf8'), 'before', 'content of the original')
    },
  },
])

async function snapshot(t: Trial, sandbox: SandboxHandle): Promise<string> {
  const { snapshotId } = await sandbox.snapshot()
  t.later(() => t.provider.deleteSnapshot(snapshotId))
  return snapshotId
}

async function forks(t: Trial, sandbox: SandboxHandle, count?: number): Promise<SandboxHandle[]> {
  const made = await sandbox.fork(count === undefined ? {} : { count })
  const good = made.filter((fork): fork is SandboxHandle => !(fork instanceof Error))
  for (const fork of good) t.adopt(fork)
  equal([made.length, good.length], [count ?? 1, count ?? 1], 'number of answers, and of copies among them')
  return good
}

/** Takes a snapshot while a program waits for a file, and creates the file afterwards: only a survivor reacts. */
async function programsAcross(t: Trial, save: (sandbox: AnySandbox) => Promise<void>): Promise<void> {
  const interrupts = t.provider.snapshotInterrupts
  equal(typeof interrupts, 'boolean', 'The type of snapshotInterrupts')
  const sandbox = await t.create()
  const other = await t.provider.get(sandbox.id)
  const gate = t.unique('gate')
  const reader = new EventReader(await t.spawn(sandbox, t.commands.gate(gate), { detached: true }))
  await reader.until('before\n')
  await save(sandbox)
  equal(
    [await sandbox.status(), (await t.run(sandbox, t.commands.print('on'))).stdout],
    ['running', 'on'],
    'status and stdout of the handle that saved it',
  )
  await sandbox.files.writeFile(gate, '')
  if (interrupts) {
    const end = await reader.exit().catch((error: unknown) => error)
    if (!SandboxError.is(end)) ok((end as { exitCode?: number }).exitCode, 'The program ended with 0')
    equal(reader.stdout, 'before\n', 'output of a program that ended with the snapshot')
    if (sandbox.capabilities.reattach)
      equal((await sandbox.listProcesses()).filter(({ running }) => running).length, 0, 'running programs')
    await rejects(t.run(other, t.commands.exit(0)), 'interrupted', 'runCommand of another handle')
  } else {
    equal([(await reader.exit()).exitCode, reader.stdout], [0, 'before\nafter\n'], 'exit code and output')
    equal((await t.run(other, t.commands.print('too'))).stdout, 'too', 'stdout of another handle')
  }
}
