import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { DatabaseSync, StatementSync } from 'node:sqlite'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Database } from './index.ts'
import { Notes, type NoteTables, noteRules, noteSchema } from './testing/notes.ts'

let folder: string
let file: string
let database: Database<NoteTables>
let notes: Notes
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sk-sqlite-'))
  file = path.join(folder, 'a.db')
  database = await Database.open<NoteTables>({ file }, noteSchema)
  notes = database.guarded(new Notes(database.db), noteRules)
})
afterEach(async () => {
  await database.close()
  await rm(folder, { recursive: true, force: true })
})

describe('another program’s lock', () => {
  it('is waited for without blocking this process', async () => {
    const other = new DatabaseSync(file)
    other.exec('begin immediate')
    let done = false
    const write = notes.add('a', '').then(() => {
      done = true
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(done).toBe(false)
    other.exec('commit')
    await write
    other.close()
  })

  it('is waited for while it recovers the file after a kill', async () => {
    await database.close()
    const other = spawn('python3', ['-c', recovering, `${file}-shm`], { stdio: ['pipe', 'pipe', 'inherit'] })
    await once(other.stdout, 'data')
    let opened = false
    const opening = Database.open<NoteTables>({ file }, noteSchema).then((again) => {
      opened = true
      return again
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(opened).toBe(false)
    other.stdin.end()
    database = await opening
  })

  it.each([
    ['SQLITE_PROTOCOL', 15],
    ['SQLITE_BUSY_TIMEOUT', 773],
  ])('is waited for when it is reported as %s (%i)', async (_, errcode) => {
    const { run } = StatementSync.prototype
    let refusals = 2
    StatementSync.prototype.run = function (this: StatementSync, ...args: unknown[]) {
      if (!this.sourceSQL.startsWith('insert') || refusals === 0)
        return Reflect.apply(run, this, args) as ReturnType<typeof run>
      refusals -= 1
      throw Object.assign(new Error('Refused.'), { code: 'ERR_SQLITE_ERROR', errcode })
    }
    try {
      await notes.add('a', '')
    } finally {
      StatementSync.prototype.run = run
    }
    expect(refusals).toBe(0)
    expect(await notes.ids()).toEqual(['a'])
  })
})

it('another program’s lock is waited for by a process that seldom runs', async () => {
  const other = new DatabaseSync(file)
  other.exec('begin immediate')
  const added = notes.add('a', '').then(
    () => 'added',
    (error: unknown) => error,
  )
  // On a busy machine, a process has few tries within the limit of 5 s. Another one may hold the lock at each of them.
  for (let pause = 0; pause < 11; pause += 1) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600)
    await new Promise((resolve) => setTimeout(resolve, 60))
  }
  other.close()
  expect(await added).toBe('added')
  expect(await notes.ids()).toEqual(['a'])
})

/** Holds SQLite's locks for use (128), writing (120) and recovery (122) of an empty index until its stdin ends. */
const recovering = `
import fcntl, os, sys
index = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(index, 32768)
fcntl.lockf(index, fcntl.LOCK_SH, 1, 128)
fcntl.lockf(index, fcntl.LOCK_EX, 1, 120)
fcntl.lockf(index, fcntl.LOCK_EX, 1, 122)
print("locked", flush=True)
sys.stdin.read()
`

describe('a full disk', () => {
  const text = 'x'.repeat(100_000)

  async function fill(): Promise<void> {
    const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(database.db)
    await sql.raw(`pragma max_page_count = ${rows[0]!.page_count}`).execute(database.db)
  }
  const makeRoom = () => sql`pragma max_page_count = 100000`.execute(database.db)

  it('is reported, and rows can be added again when there is room', async () => {
    await fill()
    await expect(notes.add('a', text)).rejects.toMatchObject({ code: 'disk_full' })
    await makeRoom()
    await notes.add('a', text)
  })

  it('spends the reserve for essential writes only, and then refuses rows until there is room for it again', async () => {
    await notes.add('a', '')
    await fill()
    await expect(notes.add('b', text)).rejects.toMatchObject({ code: 'disk_full' })
    expect(existsSync(`${file}.reserve`)).toBe(true)
    await expect(notes.replace('a', text)).rejects.toMatchObject({ code: 'disk_full' })
    expect(existsSync(`${file}.reserve`)).toBe(false)
    await makeRoom()
    await notes.replace('a', text)
    await expect(notes.add('b', '')).rejects.toMatchObject({ code: 'disk_full' })
    database.reserveDisk()
    expect(existsSync(`${file}.reserve`)).toBe(true)
    await notes.add('b', '')
    expect(await notes.ids()).toEqual(['a', 'b'])
  })
})

describe('the reserve', () => {
  it('lies beside a file in the working directory, and goes when the database is closed', async () => {
    const before = process.cwd()
    process.chdir(folder)
    try {
      const relative = await Database.open<NoteTables>({ file: 'relative.db' }, noteSchema)
      expect(existsSync(path.join(folder, 'relative.db.reserve'))).toBe(true)
      await relative.close()
      expect(existsSync(path.join(folder, 'relative.db.reserve'))).toBe(false)
    } finally {
      process.chdir(before)
    }
  })
})
