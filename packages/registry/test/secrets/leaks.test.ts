import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openCredentials } from '../../src/credentials/index.ts'
import { type Account, startAccount } from '../../src/providers/testing/account.ts'
import { openStore } from '../../src/store/index.ts'
import type { Task } from './child.ts'
import { killChildren, spawnChild } from './spawn-child.ts'

const secrets = {
  keys: ['sk-replaced-credential-7c1f', 'sk-present-credential-9ab2'],
  envText: JSON.stringify({ TOKEN: 'sandbox-variable-value-51de' }),
  password: 'password-of-the-agents-server-20c4',
  values: ['ghp-replaced-value-of-a-policy-31d2', 'ghp-present-value-of-a-policy-6e07'],
}
const needles = [...secrets.keys, 'sandbox-variable-value-51de', secrets.password, ...secrets.values]

/** Linux only: other systems have no /proc. */
const linux = process.platform === 'linux'
const dumper = coreDumper()
const noCore = dumper ? undefined : 'cores are off or go to a program, and there is no gdb'

let folder: string
let file: string
let account: Account

beforeEach(async () => {
  folder = fs.mkdtempSync(path.join(tmpdir(), 'sk-leaks-'))
  file = path.join(folder, 'registry.db')
  // Accepts neither key, and repeats them in its errors.
  account = await startAccount('another key')
})
afterEach(async () => {
  killChildren()
  await account.close()
  fs.rmSync(folder, { recursive: true, force: true })
})

describe('no credential that was put in is found', () => {
  it('in the database’s files, the output and the command lines, also after kill -9', async () => {
    const child = spawnChild(task('use'), { cwd: folder })
    await child.printed('done')
    expect(found(child.output())).toEqual([])
    // The error of the provider was printed, without the key that the server repeats.
    await child.printed('not accepted: Bearer [redacted]')
    expect(child.output()).toContain('sk1:')
    if (linux)
      for (const name of ['cmdline', 'environ']) expect(found(read(`/proc/${child.pid}/${name}`))).toEqual([])
    const names = filesIn(folder)
    expect(names).toEqual(expect.arrayContaining(['registry.db', 'registry.db-wal', 'registry.db.key']))
    for (const name of names) expect(found(read(path.join(folder, name))), name).toEqual([])
    child.process.kill('SIGKILL')
    await child.ended
    for (const name of filesIn(folder)) expect(found(read(path.join(folder, name))), name).toEqual([])
  })

  it('with a copy of the database that lacks the key: it does not open, and gets no new key', async () => {
    const child = spawnChild(task('use'), { cwd: folder })
    await child.printed('done')
    child.process.kill('SIGKILL')
    await child.ended
    const copy = path.join(folder, 'copy')
    fs.mkdirSync(copy)
    for (const end of ['', '-wal', '-shm'])
      fs.copyFileSync(`${file}${end}`, path.join(copy, `registry.db${end}`))
    const store = await openStore({ file: path.join(copy, 'registry.db') })
    const keyFile = path.join(copy, 'registry.db.key')
    await expect(openCredentials({ store, keyFile, env: {} })).rejects.toMatchObject({
      code: 'unauthenticated',
    })
    await store.close()
    expect(filesIn(copy).filter((name) => name.includes('key'))).toEqual([])
    // Positive control: with its key, the same copy opens.
    fs.copyFileSync(`${file}.key`, keyFile)
    const again = await openStore({ file: path.join(copy, 'registry.db') })
    const { providers } = await openCredentials({ store: again, keyFile, env: {} })
    expect((await providers.choose({}, 'daemon')).credentialsId).not.toBeNull()
    await again.close()
  })

  it('in the report of a crash', async () => {
    const child = spawnChild(task('crash'), {
      cwd: folder,
      nodeOptions: ['--report-uncaught-exception', '--report-directory', folder],
    })
    expect(await child.ended).not.toBe(0)
    expect(found(child.output())).toEqual([])
    const reports = filesIn(folder).filter((name) => name.startsWith('report.'))
    expect(reports).toHaveLength(1)
    const report = read(path.join(folder, reports[0]!))
    expect(report).toContain('not accepted: Bearer [redacted]')
    expect(found(report)).toEqual([])
  })

  it.skipIf(!linux)('in the memory of a process that only lists and removes (needs /proc)', async () => {
    const user = spawnChild(task('use'), { cwd: folder })
    await user.printed('done')
    // Positive control: a process that uses a provider must hold its credential.
    expect(foundInMemory(user.pid)).toContain(secrets.keys[1])
    user.process.kill('SIGKILL')
    await user.ended
    const lister = spawnChild({ mode: 'list', file }, { cwd: folder })
    await lister.printed('done')
    expect(lister.output()).toContain('"secrets":["apiKey"]')
    // The sandbox needs the credential, so the child could not remove it.
    await lister.printed('need these credentials')
    expect(foundInMemory(lister.pid)).toEqual([])
    lister.process.kill('SIGKILL')
    await lister.ended
  })

  it.skipIf(noCore)(`in a core${noCore ? ` (skipped: ${noCore})` : ''}`, { timeout: 60_000 }, async () => {
    const using = { ...task('use'), withMemoryInCores: false }
    expect(await foundInCore(using)).toEqual({ found: [], hasMemory: false })
    // Positive control: with the usual memory in it, the core has the credential.
    const usual = await foundInCore({ ...using, withMemoryInCores: true })
    expect(usual).toEqual({ found: expect.arrayContaining([secrets.keys[1]]), hasMemory: true })
  })
})

function task(mode: Task['mode']): Task {
  return { mode, file, url: account.url, ...secrets }
}

/** The secrets in a text, in the forms in which a file or a memory may hold them. */
function found(text: string | Buffer): string[] {
  return needles.filter((needle) => formsOf(needle).some((form) => text.includes(form)))
}

function formsOf(needle: string): string[] {
  const bytes = Buffer.from(needle)
  const twoByte = Buffer.from(needle, 'utf16le').toString('latin1')
  return [needle, twoByte, bytes.toString('base64').replace(/=+$/, ''), bytes.toString('hex')]
}

/** Takes a real core of a process that uses a credential, and searches it. */
async function foundInCore(task: Task): Promise<{ found: string[]; hasMemory: boolean }> {
  const cwd = fs.mkdtempSync(path.join(folder, 'cores-'))
  const child = spawnChild(task, { cwd, cores: true })
  await child.printed('done')
  if (dumper === 'gcore') {
    execFileSync('gcore', ['-o', path.join(cwd, 'core'), String(child.pid)], { stdio: 'ignore' })
    child.process.kill('SIGKILL')
  } else child.process.kill('SIGABRT')
  expect(await child.ended).toBe(dumper === 'gcore' ? 'SIGKILL' : 'SIGABRT')
  const [core, ...others] = fs.readdirSync(cwd).filter((name) => name.startsWith('core'))
  expect([core, others]).toEqual([expect.any(String), []])
  const file = fs.openSync(path.join(cwd, core!), 'r')
  try {
    const { size, blocks } = fs.fstatSync(file)
    // A core of nothing but notes about threads is below 1 MB.
    return { found: search(file, [[0, size]]), hasMemory: blocks * 512 > 8 * 1024 * 1024 }
  } finally {
    fs.closeSync(file)
    fs.rmSync(cwd, { recursive: true })
  }
}

function read(name: string): string {
  return fs.readFileSync(name, 'latin1')
}

function filesIn(of: string): string[] {
  return fs.readdirSync(of).filter((name) => fs.statSync(path.join(of, name)).isFile())
}

/** The secrets in the writable memory of a process: what its core would contain. */
function foundInMemory(pid: number): string[] {
  const memory = fs.openSync(`/proc/${pid}/mem`, 'r')
  const ranges = read(`/proc/${pid}/maps`)
    .split('\n')
    .flatMap((line) => {
      const [, from, to, rights] = /^([0-9a-f]+)-([0-9a-f]+) (\S+)/.exec(line) ?? []
      if (!rights?.startsWith('rw')) return []
      return [[Number.parseInt(from!, 16), Number.parseInt(to!, 16)] as const]
    })
  try {
    return search(memory, ranges)
  } finally {
    fs.closeSync(memory)
  }
}

/** The secrets in these ranges of a file. */
function search(file: number, ranges: ReadonlyArray<readonly [number, number]>): string[] {
  const bytes = Buffer.alloc(8 * 1024 * 1024)
  const overlap = 1024
  const all = new Set<string>()
  for (const [from, end] of ranges)
    for (let at = from; at < end; at += bytes.length - overlap) {
      const count = fs.readSync(file, bytes, 0, Math.min(bytes.length, end - at), at)
      for (const needle of found(bytes.subarray(0, count))) all.add(needle)
    }
  return [...all]
}

/** How a core is made here: by the kernel, in the folder of the process, or by gdb, which keeps to the same filter. */
function coreDumper(): 'kernel' | 'gcore' | undefined {
  if (!linux) return undefined
  const isFile = /^[^|/%]+$/.test(read('/proc/sys/kernel/core_pattern').trim())
  const most = execFileSync('sh', ['-c', 'ulimit -H -c'], { encoding: 'utf8' }).trim()
  if (isFile && most === 'unlimited') return 'kernel'
  return spawnSync('gcore', ['--help']).error ? undefined : 'gcore'
}
