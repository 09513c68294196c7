import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readRecord } from '@sandkasten/sdk/internal'
import { describe, expect, it } from 'vitest'
import { groupRoots, layoutOfThisMachine } from '../../isolators/oci/limits/cgroups.ts'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { EngineProvider, type EngineProviderOptions } from '../engine-provider.ts'
import { noteOf, type Said, showDisk } from '../testing/crash-picture.ts'

/**
 * Kills processes that use the engine, shims and runners at random moments. Acknowledged changes must exist. Other
 * changes may exist or not. After a sweep by another process, nothing without an owner is left.
 */
const KILLS = Number(process.env.SANDKASTEN_CRASHES ?? 40)
const SHIM_KILLS = Math.max(1, Math.round(KILLS / 4))
const skipped = await reasonToSkip()

/** The acknowledged state. */
interface Promised {
  /** Sandboxes, and the allowed contents of their note: the last acknowledged text and a text in progress. */
  readonly sandboxes: Map<string, Set<string>>
  /** Snapshots and forks, with the content of their disks. */
  readonly snapshots: Map<string, string>
  /** These may be gone, because their removal has begun. */
  readonly leaving: Set<string>
  readonly failures: string[]
}

describe('processes killed at random moments', () => {
  it(
    `${KILLS} engines and ${SHIM_KILLS} shims and runners: no acknowledged change is lost, nothing is left behind`,
    async ({ skip }) => {
      if (skipped) skip(skipped)
      const name = `skc-${randomBytes(4).toString('hex')}`
      const folder = mkdtempSync(path.join(tmpdir(), `${name}-`))
      const options: EngineProviderOptions = {
        isolator: 'oci',
        root: path.join(folder, 'root'),
        oci: {
          runFolder: path.join('/run', name),
          ids: { folder: path.join(folder, 'ids') },
          cgroupParent: name,
        },
      }
      const promised: Promised = {
        sandboxes: new Map(),
        snapshots: new Map(),
        leaving: new Set(),
        failures: [],
      }
      const provider = new EngineProvider(options)
      try {
        for (let kill = 1; kill <= KILLS; kill++) {
          await oneLife(options, promised, kill % 4 === 0)
          if (kill % 10 === 0) await clearUnpromised(provider, promised)
        }
        await provider.sweep()
        expect(promised.failures).toEqual([])
        await holds(provider, promised)
        expect(await unowned(options, provider, name, folder)).toEqual([])
        for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
        for (const { snapshotId } of await provider.listSnapshots()) await provider.deleteSnapshot(snapshotId)
        await provider.close()
        expect(await unowned(options, provider, name, folder)).toEqual([])
        const left = ['sandboxes', 'layers'].flatMap((each) => namesIn(path.join(options.root!, each)))
        expect(left.filter((each) => each !== 'holds' && each !== 'lock')).toEqual([])
      } finally {
        for (const { sandboxId } of await provider.list().catch(() => []))
          await provider.destroy(sandboxId).catch(() => {})
        await provider.close()
        for (const root of groupRoots(layoutOfThisMachine()))
          if (existsSync(path.join(root, name))) rmdirSync(path.join(root, name))
        rmSync(path.join('/run', name), { recursive: true, force: true })
        rmSync(folder, { recursive: true, force: true })
      }
    },
    60_000 + KILLS * 3000,
  )
})

/** Starts a worker and kills it. Before that, it may kill a shim or a runner of one of its sandboxes. */
async function oneLife(options: EngineProviderOptions, promised: Promised, alsoShim: boolean): Promise<void> {
  const here = [...promised.sandboxes.keys()].filter((id) => !promised.leaving.has(id))
  const saved = [...promised.snapshots.keys()].filter((id) => !promised.leaving.has(id))
  const worker = fileURLToPath(new URL('../testing/crash-worker.ts', import.meta.url))
  const args = [
    '--conditions=sandkasten-source',
    worker,
    ...[options, here, saved, alsoShim].map((each) => JSON.stringify(each)),
  ]
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
  let text = ''
  const said = (lines: number) =>
    new Promise<void>((resolve) => {
      const look = () => text.split('\n').length > lines && resolve()
      child.stdout!.on('data', look)
      child.once('close', () => resolve())
      look()
    })
  child.stdout!.on('data', (chunk) => {
    text += chunk
  })
  // Wait for a number of lines, not for a time, so that a busy machine hits the same places. The short delay moves the
  // kill between two lines.
  const lines = 1 + Math.floor(Math.random() * 20)
  if (alsoShim) {
    await said(Math.ceil(lines / 2))
    killOneOf(options)
  }
  await said(lines)
  await sleep(Math.random() * 15)
  child.kill('SIGKILL')
  await exited
  for (const line of text.split('\n').slice(0, -1)) note(JSON.parse(line) as Said, promised)
}

/** Removes sandboxes whose worker was killed before it could report them. */
async function clearUnpromised(provider: EngineProvider, { sandboxes, snapshots }: Promised): Promise<void> {
  for (const { sandboxId } of await provider.list())
    if (!sandboxes.has(sandboxId)) await provider.destroy(sandboxId)
  for (const { snapshotId } of await provider.listSnapshots())
    if (!snapshots.has(snapshotId)) await provider.deleteSnapshot(snapshotId)
}

function killOneOf({ root }: EngineProviderOptions): void {
  const place = path.join(root!, 'sandboxes')
  const states = existsSync(place)
    ? readdirSync(place).map((id) => readOr(path.join(place, id, 'disk/shim.json')))
    : []
  const living = states.filter((state) => state !== undefined).map((state) => JSON.parse(state))
  const state = living[Math.floor(Math.random() * living.length)]
  const pid = Math.random() < 0.5 ? state?.pid : state?.runnerPid
  // Check that the pid was not reused.
  if (typeof pid !== 'number' || !(readOr(`/proc/${pid}/cmdline`) ?? '').includes('runner')) return
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has exited.
  }
}

function note(said: Said, { sandboxes, snapshots, leaving, failures }: Promised): void {
  if ('failed' in said) failures.push(said.failed)
  else if ('about' in said) {
    if (said.about === 'write') sandboxes.get(said.id)?.add(said.text)
    else leaving.add(said.id)
  } else if (said.done === 'create' || said.done === 'write') sandboxes.set(said.id, new Set([said.text]))
  else if (said.done === 'snapshot') snapshots.set(said.id, said.picture)
  else if (said.done === 'destroy') sandboxes.delete(said.id)
  else if (said.done === 'delete') snapshots.delete(said.id)
}

/** Checks every acknowledged change from another process. */
async function holds(provider: EngineProvider, { sandboxes, snapshots, leaving }: Promised): Promise<void> {
  for (const [id, texts] of sandboxes) {
    const sandbox = await provider.get(id).catch((error) => {
      if (leaving.has(id)) return undefined
      throw new Error(`sandbox ${id} was promised: ${error}`)
    })
    if (!sandbox) continue
    expect([...texts]).toContain(await noteOf(sandbox))
  }
  const listed = new Set((await provider.listSnapshots()).map(({ snapshotId }) => snapshotId))
  for (const [snapshotId, picture] of snapshots) {
    if (!listed.has(snapshotId) && leaving.has(snapshotId)) continue
    const copy = await provider.create({ snapshotId })
    expect(await showDisk(copy)).toBe(picture)
    await copy.destroy()
  }
}

/** Everything that belongs to no known sandbox or snapshot. */
async function unowned(
  options: EngineProviderOptions,
  provider: EngineProvider,
  name: string,
  folder: string,
): Promise<string[]> {
  const found: string[] = []
  const infos = await provider.list()
  const ids = new Set(infos.map(({ sandboxId }) => sandboxId))
  const running = infos.filter(({ status }) => status === 'running').map(({ sandboxId }) => sandboxId)
  const place = path.join(options.root!, 'sandboxes')
  for (const each of readdirSync(place)) if (!ids.has(each)) found.push(`folder ${each}`)
  for (const each of namesIn(path.join(folder, 'ids'))) {
    const owner = readlinkSync(path.join(folder, 'ids', each))
    if (!ids.has(path.basename(path.dirname(owner)))) found.push(`ids ${each} of ${owner}`)
  }
  for (const each of namesIn(path.join('/run', name)))
    if (!['stage', 'shim.log'].includes(each) && !ids.has(each)) found.push(`sockets ${each}`)
  const layers = new Set(
    running.length >= 0 ? (await recordsOf(options.root!)).flatMap((record) => record.layers) : [],
  )
  for (const each of namesIn(path.join(options.root!, 'layers')))
    if (!['holds', 'lock'].includes(each) && !layers.has(each)) found.push(`layer ${each}`)
  for (const each of namesIn(path.join(options.root!, 'layers/holds'))) found.push(`hold ${each}`)
  // There is one group per running sandbox and one for the prepared shim, and no process outside these groups.
  for (const root of groupRoots(layoutOfThisMachine())) {
    const groups = readdirSync(path.join(root, name), { withFileTypes: true }).filter((each) =>
      each.isDirectory(),
    )
    if (groups.length > running.length + 1)
      found.push(`${groups.length} groups in ${root} for ${running.length} sandboxes`)
  }
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
  if (mounts.includes(name)) found.push('a mount')
  return found
}

async function recordsOf(root: string): Promise<Array<{ layers: string[] }>> {
  const folders = readdirSync(path.join(root, 'sandboxes')).map((id) => path.join(root, 'sandboxes', id))
  const sandboxes = await Promise.all(folders.map((folder) => readRecord(folder)))
  const snapshots = namesIn(path.join(root, 'snapshots')).map((each) => path.join(root, 'snapshots', each))
  return [
    ...sandboxes.map((record) => record!.extra as { layers: string[] }),
    ...snapshots.map((file) => JSON.parse(readFileSync(file, 'utf8'))),
  ]
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : []
}

function readOr(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
