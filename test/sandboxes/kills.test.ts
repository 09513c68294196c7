import { SandboxError } from '@sandkasten/sdk'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { SandboxRecord } from '../../packages/registry/src/index.ts'
import { random as randomOf } from '../random.ts'
import { type Killed, KillWorld, readFileOf, secret } from './kill-world.ts'
import type { KilledTask } from './killed.ts'

/**
 * `SEED=7` repeats the choices of a run, but not the moments of its kills: `step-kills.test.ts` does that. `KILLS=200`
 * is the long run, half of it there.
 */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const wantedKills = Number(process.env.KILLS ?? 120) / 2
const random = randomOf(seed)

const names = ['one', 'two', 'three']
const kept = 'kept'
let world: KillWorld
/** How often a process was killed in the middle of each operation. */
const killedIn: Record<string, number> = {}

beforeAll(async () => {
  world = await KillWorld.start()
})
afterAll(async () => {
  await world?.stop()
  console.log(`SEED=${seed}, killed in ${JSON.stringify(killedIn)}`)
})

/**
 * Two processes at a time create, resume, stop, save and destroy the same sandboxes, rotate the key and compare, until
 * both are killed at a random moment. The next process must find everything explained and usable.
 */
it('processes that are killed lose no sandbox, no name and no credential', { timeout: 900_000 }, async () => {
  let before: string[] = [kept]
  {
    await using registry = await world.open()
    const { handle } = await registry.in().create({ name: kept, envVars: { SECRET: secret } })
    await handle.files.writeFile('file', 'kept')
  }
  let next = pairOf()
  for (let kills = 0; kills < wantedKills; kills += 2) {
    const pair = next
    const outputs = await Promise.all(pair.map((child) => killedAtRandom(child, random.below(400))))
    for (const output of outputs) {
      expect(output).not.toContain('unexpected')
      world.expectNoSecretIn(output, 'output')
      const what = /begin (\w+) \w+\n$/.exec(output)?.[1] ?? 'nothing'
      killedIn[what] = (killedIn[what] ?? 0) + 1
    }
    next = pairOf()
    before = await verify(kills, acknowledged(before, outputs))
  }
  for (const child of next) child.process.kill('SIGKILL')
  const inTheMiddle = Object.entries(killedIn).filter(([what]) => what !== 'nothing')
  const count = inTheMiddle.reduce((sum, [, times]) => sum + times, 0)
  // Operations take most of the time of these processes.
  expect(count).toBeGreaterThan(wantedKills / 2)
})

function pairOf(): Killed[] {
  return [0, 1].map(() => world.spawn('killed.ts'))
}

async function killedAtRandom(child: Killed, moment: number): Promise<string> {
  const task: KilledTask = { dataDir: world.dataDir, seed: random.below(2 ** 31), names, kept, secret }
  child.begin(task)
  await child.printed('ready')
  await new Promise((resolve) => setTimeout(resolve, moment))
  child.process.kill('SIGKILL')
  const { end, output } = await child.ended
  expect(end, output).toBe('SIGKILL')
  return output
}

/**
 * The names that must exist: what existed or was acknowledged, and that no process has begun to destroy since. If both
 * processes change a name, their order is not known, so a destroy of either counts as the last.
 */
function acknowledged(before: readonly string[], outputs: readonly string[]): string[] {
  const changes = outputs.map((output) =>
    [...output.matchAll(/^(begin destroy|end create) (\w+)$/gm)].map(([, what, name]) => ({ what, name })),
  )
  return [kept, ...names].filter((name) => {
    const mine = changes
      .map((all) => all.filter((change) => change.name === name))
      .filter((all) => all.length > 0)
    if (mine.length === 0) return before.includes(name)
    if (mine.length === 1) return mine[0]!.at(-1)!.what === 'end create'
    return mine.flat().every(({ what }) => what === 'end create')
  })
}

/** Returns the names that exist now. */
async function verify(kills: number, mustExist: readonly string[]): Promise<string[]> {
  await using registry = await world.open()
  const sandboxes = registry.in()
  const rows = await world.recover(registry, mustExist)
  await expect.poll(() => readFileOf(registry, kept)).toBe('kept')

  // Every sandbox starts or says why not, and one name after the other is used again.
  for (const row of rows) await expectUsable(row, () => sandboxes.resume(row.name))
  const name = names[(kills / 2) % names.length]!
  if (rows.some((row) => row.name === name)) await sandboxes.destroy(name)
  await sandboxes.create({ name, envVars: { SECRET: secret } })
  return (await sandboxes.list()).filter(({ status }) => status !== 'failed').map((row) => row.name)
}

async function expectUsable(row: SandboxRecord, resume: () => Promise<unknown>): Promise<void> {
  const problem = await resume().then(
    () => undefined,
    (error: unknown) => error,
  )
  if (problem === undefined) return
  expect(row.status).toBe('failed')
  expect(problem).toSatisfy((error) => SandboxError.is(error, 'not_found'))
  expect(String(problem)).toContain(row.errorMessage)
}
