/** K19: writes are atomic, locked and compared; an interrupted writer does not block the next one. */
import { execFile, spawn } from 'node:child_process'
import { chmodSync, lstatSync, readdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { PACKAGE, problemsOf, project, SHELL, sandbox } from '../../test/project.ts'
import { sync } from '../sync.ts'
import { withLock } from './lock.ts'
import { ChangedMeanwhile, replaceFile } from './write.ts'

const FILE = 'src/server/shell.sandbox.ts'
const LOCK = '.wrangler.jsonc.lock'
const BIN = `${PACKAGE}bin/sandkasten-cloudflare.js`

test('without a change nothing is written, and no timestamp changes', async () => {
  const { root, path } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}' })
  await sync({ root })
  const past = new Date('2020-01-01')
  for (const file of ['wrangler.jsonc', '.']) utimesSync(path(file), past, past)
  expect((await sync({ root })).written).toBe(false)
  for (const file of ['wrangler.jsonc', '.']) expect(statSync(path(file)).mtime).toEqual(past)
})

test('keeps the file’s mode and a linked config, and leaves nothing behind', async () => {
  const { root, path, read } = project({ [FILE]: SHELL, 'shared/real.jsonc': '{}' })
  chmodSync(path('shared/real.jsonc'), 0o640)
  symlinkSync(path('shared/real.jsonc'), path('wrangler.jsonc'))
  await sync({ root })
  expect(lstatSync(path('wrangler.jsonc')).isSymbolicLink()).toBe(true)
  expect(statSync(path('shared/real.jsonc')).mode & 0o777).toBe(0o640)
  expect(read('shared/real.jsonc')).toContain('SHELL_SANDBOX')
  expect(readdirSync(root).filter((name) => name.startsWith('.'))).toEqual([])
})

test('refuses a read-only config, also for root', async () => {
  const { root, path, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}' })
  chmodSync(path('wrangler.jsonc'), 0o444)
  const [problem] = await problemsOf(sync({ root }))
  expect(problem).toMatchObject({ code: 'read-only', place: { file: 'wrangler.jsonc' } })
  expect(read('wrangler.jsonc')).toBe('{}')
  expect(readdirSync(root).filter((name) => name.startsWith('.'))).toEqual([])
})

test('does not overwrite a text that changed since it was read', () => {
  const { path, read } = project({ 'wrangler.jsonc': '{ "edited": true }' })
  expect(() => replaceFile(path('wrangler.jsonc'), '{}', '{ "ours": true }', 'wrangler.jsonc')).toThrow(
    ChangedMeanwhile,
  )
  expect(read('wrangler.jsonc')).toBe('{ "edited": true }')
})

test('writers in one process take turns', async () => {
  const { path } = project({ 'wrangler.jsonc': '{}' })
  const order: string[] = []
  const turn = (name: string) =>
    withLock(path('wrangler.jsonc'), async () => {
      order.push(`${name} in`)
      await new Promise((resolve) => setTimeout(resolve, 30))
      order.push(`${name} out`)
    })
  await Promise.all([turn('a'), turn('b'), turn('c')])
  for (let index = 0; index < order.length; index += 2)
    expect(order[index + 1]).toBe(order[index]?.replace('in', 'out'))
})

test('eight concurrent processes: one valid result, and no lock left', { timeout: 60_000 }, async () => {
  const { root, read, write } = project({ 'wrangler.jsonc': '// kept\n{}\n' })
  for (const name of ['a', 'b', 'c']) write({ [`src/server/${name}.sandbox.ts`]: sandbox(`Class${name}`) })
  const runs = Array.from({ length: 8 }, () =>
    promisify(execFile)(process.execPath, [BIN, 'sync'], { cwd: root }),
  )
  const outputs = await Promise.all(runs)
  expect(outputs.filter(({ stdout }) => stdout.startsWith('wrote'))).toHaveLength(1)
  expect(read('wrangler.jsonc')).toMatch(/^\/\/ kept\n\{/)
  expect(read('wrangler.jsonc').match(/"tag"/g)).toHaveLength(1)
  expect(readdirSync(root).filter((name) => name.startsWith('.'))).toEqual([])
})

test('takes over the lock and the partial file of a killed process', async () => {
  const { root, path, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}' })
  const holder = `
    const { withLock } = await import(${JSON.stringify(`${PACKAGE}src/apply/lock.ts`)})
    await withLock(${JSON.stringify(path('wrangler.jsonc'))}, () => { console.log('held'); return new Promise(() => setInterval(() => {}, 1000)) })`
  const child = spawn(process.execPath, ['--input-type=module', '-e', holder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  writeFileSync(path(`.wrangler.jsonc.${child.pid}.tmp`), '{ "half": ')
  const [problem] = await problemsOf(withLock(path('wrangler.jsonc'), () => undefined, 100))
  expect(problem).toMatchObject({ code: 'locked' })
  child.kill('SIGKILL')
  await new Promise((resolve) => child.once('exit', resolve))
  await sync({ root })
  expect(read('wrangler.jsonc')).toContain('SHELL_SANDBOX')
  expect(readdirSync(root).filter((name) => name.startsWith('.'))).toEqual([])
})

test('respects a lock of another machine until it is old', async () => {
  const { root, path } = project({
    [FILE]: SHELL,
    'wrangler.jsonc': '{}',
    [LOCK]: '{"pid":1,"host":"elsewhere"}',
  })
  const [problem] = await problemsOf(withLock(path('wrangler.jsonc'), () => undefined, 60))
  expect(problem?.code).toBe('locked')
  const past = new Date(Date.now() - 120_000)
  utimesSync(path(LOCK), past, past)
  expect((await sync({ root })).written).toBe(true)
})

test('does not overwrite an editor’s save between reading and writing: sync reads again', async () => {
  const { root, path, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}' })
  let reads = 0
  const options = {
    root,
    // Called after the config was read (once to check, once under the lock) and before it is written: simulates a
    // save at that moment.
    get today() {
      if (reads++ === 1) writeFileSync(path('wrangler.jsonc'), '{ "name": "edited" }')
      return '2026-01-01'
    },
  }
  expect((await sync(options)).written).toBe(true)
  expect(reads).toBe(3)
  expect(JSON.parse(read('wrangler.jsonc'))).toMatchObject({ name: 'edited', migrations: [{ tag: 'v1' }] })
})
