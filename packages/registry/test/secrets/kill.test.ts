import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { random as randomOf } from '../../../../test/random.ts'
import { readKeyFile } from '../../../database/src/sealed/key-file.ts'
import { openCredentials } from '../../src/credentials/index.ts'
import { openSettings } from '../../src/credentials/stored-settings.ts'
import { openStore } from '../../src/store/index.ts'
import { sandboxRow } from '../../src/store/testing/rows.ts'
import type { Task } from './child.ts'
import { killChildren, spawnChild } from './spawn-child.ts'

/** Set it to repeat a run. The kills between two steps do not depend on it. */
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const { next: random } = randomOf(seed)

const url = 'http://127.0.0.1:9'
const keys = ['sk-first-key-of-the-account', 'sk-second-key-of-the-account']
const texts = new Map<string, string>()
let folder: string
let file: string
let kills = 0

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'sk-kill-'))
  file = path.join(folder, 'registry.db')
  const { store, secrets, credentials } = await open()
  for (let at = 0; at < 3; at += 1) {
    const row = sandboxRow({ name: randomUUID() })
    texts.set(row.id, `text ${at}`)
    const env = await secrets.seal(`text ${at}`, { table: 'sandboxes', column: 'env', row: row.id })
    await store.sandboxes.insert({ ...row, env })
  }
  await credentials.setup('daemon', { url, apiKey: keys[0]! }, { check: false })
  await store.close()
})
afterAll(() => {
  killChildren()
  rmSync(folder, { recursive: true, force: true })
  console.log(`${kills} kills, SEED=${seed}`)
})

it('a rotation that is killed before any of its steps can be repeated', { timeout: 300_000 }, async () => {
  const steps = await killAtEachStep({ mode: 'rotate', file })
  // The file is written twice, and each of the four values is read and replaced.
  expect(steps).toBeGreaterThan(20)
})

it('a setup that is killed before any of its steps leaves the old or the new credential', {
  timeout: 300_000,
}, async () => {
  const steps = await killAtEachStep({ mode: 'setup', file, url, keys: [keys[1]!] })
  expect(steps).toBeGreaterThan(5)
})

it('rotations and setups of two processes can be killed at any time', { timeout: 400_000 }, async () => {
  for (let round = 0; kills < 100; round += 1) {
    const children = [
      spawnChild({ mode: 'rotate', file, times: 1_000 }),
      spawnChild({ mode: round % 2 === 0 ? 'setup' : 'rotate', file, url, keys, times: 1_000 }),
    ]
    await Promise.all(children.map((child) => child.printed('ready')))
    await Promise.all(
      children.map(async (child) => {
        await new Promise((resolve) => setTimeout(resolve, random() * 120))
        child.process.kill('SIGKILL')
        expect(await child.ended, child.output()).toBe('SIGKILL')
        kills += 1
      }),
    )
    await verify()
  }
})

it('two processes that rotate at once both succeed', { timeout: 120_000 }, async () => {
  const children = [1, 2].map(() => spawnChild({ mode: 'rotate', file, times: 10 }))
  for (const child of children) expect(await child.ended, child.output()).toBe(0)
  await verify()
})

/** Repeats the task, and kills it one step later each time, until it ends by itself. Returns the number of steps. */
async function killAtEachStep(task: Task): Promise<number> {
  for (let killAt = 1; ; killAt += 1) {
    const child = spawnChild({ ...task, killAt })
    const end = await child.ended
    await verify()
    if (end === 0) return killAt - 1
    expect(end, child.output()).toBe('SIGKILL')
    kills += 1
  }
}

/** Everything opens, under one key, and the key file has no other. */
async function verify(): Promise<void> {
  const { store, secrets } = await open()
  try {
    for (const [id, text] of texts) {
      const { env } = (await store.sandboxes.byId(id))!
      expect(await secrets.open(env!, { table: 'sandboxes', column: 'env', row: id })).toBe(text)
    }
    const [row, ...others] = await store.providers.list()
    expect(others).toEqual([])
    const settings = await openSettings(secrets, row!)
    expect(settings).toEqual({ url, apiKey: expect.toBeOneOf(keys) as string })
    expect(readKeyFile(`${file}.key`).map(({ id }) => id)).toEqual([await store.sealed.keyId()])
  } finally {
    await store.close()
  }
}

async function open() {
  const store = await openStore({ file })
  return { store, ...(await openCredentials({ store, keyFile: `${file}.key`, env: {} })) }
}
