import { SandboxError } from '@sandkasten/sdk'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Registry, SandboxRecord } from '../../packages/registry/src/index.ts'
import { random as randomOf } from '../random.ts'
import { type Killed, KillWorld, readFileOf, secret } from './kill-world.ts'
import { operations, type StepTask } from './killed-at-step.ts'

/** `SEED=7` repeats a run, kill by kill. Half of the kills of `KILLS` are made here; `KILLS=200` is the long run. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const wantedKills = Number(process.env.KILLS ?? 120) / 2
const random = randomOf(seed)
type Operation = (typeof operations)[number]

let world: KillWorld
/** The steps of each operation, in a random order, and what the processes were killed before. */
let plan: Record<Operation, number[]>
const killedAt: Record<Operation, string[]> = { create: [], resume: [], snapshot: [], destroy: [] }

beforeAll(async () => {
  world = await KillWorld.start()
})
afterAll(async () => {
  await world?.stop()
  const counts = operations.map(
    (what) => `${what} (${killedAt[what].length} of ${plan?.[what].length} steps)`,
  )
  console.log(`SEED=${seed}, killed in the middle of ${counts.join(', ')}`)
})

/**
 * Two processes at a time do one operation each, on sandboxes of their own, and are killed before a chosen step: a
 * statement of the database, a request, or the use of its answer. The next process must find what was promised.
 */
it('an operation that is killed before any of its steps loses nothing', { timeout: 900_000 }, async () => {
  plan = await steps()
  let next = pairOf()
  for (let round = 0; round * 2 < wantedKills; round += 1) {
    const pair = await next
    const tasks: StepTask[] = []
    for (const at of [0, 1]) {
      const what = operations[(round * 2 + at) % operations.length]!
      const killAt = plan[what][Math.floor((round * 2 + at) / operations.length) % plan[what].length]!
      tasks.push({ dataDir: world.dataDir, what, name: what, secret, killAt })
    }
    const before = await prepared(tasks)
    for (const [at, child] of pair.entries()) child.begin(tasks[at]!)
    const ends = await Promise.all(pair.map(({ ended }) => ended))
    next = pairOf()
    for (const [at, { end, output }] of ends.entries()) {
      world.expectNoSecretIn(output, 'output')
      expect(end, output).toBe('SIGKILL')
      killedAt[tasks[at]!.what].push(/killed before (.*)/.exec(output)![1]!)
    }
    await verify(
      tasks,
      before,
      ends.map(({ output }) => output),
    )
  }
  for (const child of await next) child.process.kill('SIGKILL')
  // Each kind is killed equally often, and always in the middle.
  for (const what of operations)
    expect(killedAt[what].length).toBeGreaterThanOrEqual(Math.floor(wantedKills / operations.length))
})

async function pairOf(): Promise<Killed[]> {
  return [0, 1].map(() => world.spawn('killed-at-step.ts'))
}

/** For each operation, its steps in a random order. An operation is done once without a kill to count them. */
async function steps(): Promise<Record<Operation, number[]>> {
  const plan = {} as Record<Operation, number[]>
  for (const what of operations) {
    const task = { dataDir: world.dataDir, what, name: what, secret }
    await prepared([task])
    const child = world.spawn('killed-at-step.ts')
    child.begin(task)
    const { end, output } = await child.ended
    expect(end, output).toBe(0)
    const count = Number(/end \w+ (\d+)/.exec(output)![1])
    expect(count, what).toBeGreaterThan(5)
    plan[what] = shuffled(Array.from({ length: count }, (_, at) => at + 1))
  }
  return plan
}

/** Makes what the operations need, and returns the rows before them. */
async function prepared(tasks: readonly StepTask[]): Promise<Map<string, SandboxRecord>> {
  await using registry = await world.open()
  const sandboxes = registry.in()
  for (const { what, name } of tasks) {
    const exists = (await sandboxes.list()).some((row) => row.name === name)
    if (what === 'create') {
      if (exists) await sandboxes.destroy(name)
      continue
    }
    if (!exists) {
      const { handle } = await sandboxes.create({ name, envVars: { SECRET: secret } })
      await handle.files.writeFile('file', `file of ${name}`)
    }
    if (what === 'resume') await sandboxes.stop(name)
    else await sandboxes.resume(name)
  }
  return new Map((await sandboxes.list()).map((row) => [row.name, row]))
}

async function verify(
  tasks: readonly StepTask[],
  before: Map<string, SandboxRecord>,
  outputs: readonly string[],
): Promise<void> {
  await using registry = await world.open()
  const ended = new Set(tasks.filter(({ what }) => what === 'destroy').map(({ name }) => name))
  const acknowledged = [...before.keys()].filter((name) => !ended.has(name))
  const rows = await world.recover(registry, acknowledged)
  for (const [at, task] of tasks.entries()) {
    const row = rows.find(({ name }) => name === task.name)
    await expectPromises(registry, task, { before: before.get(task.name), row }, outputs[at]!)
  }
  // The others did not take part, and are as they were.
  for (const [name, { status, incarnation, providerSandboxId }] of before)
    if (!tasks.some((task) => task.name === name))
      expect(rows.find((row) => row.name === name)).toMatchObject({ status, incarnation, providerSandboxId })
}

async function expectPromises(
  registry: Registry,
  { what, name }: StepTask,
  { before, row }: { before: SandboxRecord | undefined; row: SandboxRecord | undefined },
  output: string,
): Promise<void> {
  const file = () =>
    expect.poll(() => readFileOf(registry, name), { message: output }).toBe(`file of ${name}`)
  if (what === 'create') {
    // Not acknowledged: it is ready, or says why not. The name can be used.
    if (row?.status === 'failed')
      expect(
        await registry
          .in()
          .resume(name)
          .catch((error: unknown) => error),
      ).toSatisfy((error) => SandboxError.is(error, 'not_found'))
    else if (row) await registry.in().resume(name)
    return
  }
  if (what === 'destroy') {
    // All or nothing: the next process finishes a destroy that had begun.
    if (row) await file()
    return
  }
  // The same sandbox, with its disk.
  expect(row?.providerSandboxId, output).toBe(before!.providerSandboxId)
  await file()
  if (what === 'snapshot') {
    const made = (await registry.in().listSnapshots({ provider: 'daemon' })).filter(
      ({ sandbox }) => sandbox === name,
    )
    // A snapshot that was made is the one that a restore uses.
    const newest = made.sort((a, b) => Number(b.createdAt) - Number(a.createdAt))[0]
    expect(newest?.snapshotId, output).toBe(row!.snapshotId)
  }
}

function shuffled(list: number[]): number[] {
  for (let at = list.length - 1; at > 0; at -= 1) {
    const other = random.below(at + 1)
    ;[list[at], list[other]] = [list[other]!, list[at]!]
  }
  return list
}
