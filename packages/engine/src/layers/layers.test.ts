import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildRunner } from '../runner/build-runner.ts'
import { LayerStore, Snapshots, Trees } from './index.ts'

const linux = process.platform === 'linux' ? undefined : 'needs Linux'
const trees = new Trees(async () => process.env.SANDKASTEN_RUNNER ?? (await buildRunner()))

let root: string
let layers: LayerStore
let snapshots: Snapshots<string>
beforeEach(({ skip }) => {
  if (linux) skip(linux)
  root = mkdtempSync(path.join(tmpdir(), 'sandkasten-layers-'))
  layers = new LayerStore(root, trees)
  snapshots = new Snapshots(root, layers)
})
afterEach(() => {
  if (root) rmSync(root, { recursive: true, force: true })
})

/** A layer with one file in it. */
async function add(text: string, below: string[] = []): Promise<string> {
  const draft = await layers.begin(below)
  mkdirSync(draft.tree)
  writeFileSync(path.join(draft.tree, 'note'), text)
  layers.seal(draft.id)
  draft.keep()
  await draft.done()
  return draft.id
}

const nothingUsed = async () => new Set<string>()
const left = () => readdirSync(path.join(root, 'layers')).filter((name) => !['holds', 'lock'].includes(name))

describe('layers', () => {
  it('a draft becomes a layer or leaves nothing', async () => {
    const id = await add('one')
    expect(existsSync(path.join(layers.treeOf(id), 'note'))).toBe(true)
    const draft = await layers.begin([id])
    mkdirSync(draft.tree)
    await draft.done()
    expect(left()).toEqual([id])
    expect(readdirSync(path.join(root, 'layers/holds'))).toEqual([])
  })

  it('keeps layers that a record names and sweeps the others', async () => {
    const [used, unused] = [await add('used'), await add('unused')]
    expect(await layers.sweep(async () => new Set([used]))).toEqual([unused])
    expect(left()).toEqual([used])
  })

  it('keeps held layers until they are released', async () => {
    const below = await add('below')
    const draft = await layers.begin([below])
    mkdirSync(draft.tree)
    expect(await layers.sweep(nothingUsed)).toEqual([])
    await draft.done()
    expect(await layers.sweep(nothingUsed)).toEqual([below])
    expect(left()).toEqual([])
  })

  it('puts back a layer that a record names during the sweep', async () => {
    const [named, unnamed] = [await add('named'), await add('unnamed')]
    let looks = 0
    // The record appears between the two reads.
    const used = async () => {
      looks += 1
      return new Set(looks > 1 ? [named] : [])
    }
    expect(await layers.sweep(used)).toEqual([unnamed])
    expect(left()).toEqual([named])
    // The sweeper is killed between the two reads.
    const half = await layers
      .sweep(async () => {
        if (left().includes(named)) return new Set<string>()
        throw new Error('killed')
      })
      .catch((error: Error) => error.message)
    expect(half).toBe('killed')
    expect(left()).toEqual([expect.stringContaining(`.trash-${named}-`)])
    expect(layers.lost([named])).toBe(named)
    expect(await layers.sweep(async () => new Set([named]))).toEqual([])
    expect(left()).toEqual([named])
    expect(await layers.sweep(nothingUsed)).toEqual([named])
    expect(left()).toEqual([])
  })

  it('a half-removed layer never comes back', async () => {
    const id = await add('one')
    const removing = layers.sweep(nothingUsed)
    await layers.sweep(async () => new Set([id]))
    expect(left()).not.toContain(id)
    expect(await removing).toEqual([id])
    expect(left()).toEqual([])
  })

  it('the error names a missing layer and says what to do', async () => {
    const id = await add('one')
    rmSync(path.join(root, 'layers', id), { recursive: true })
    await expect(layers.begin([id])).rejects.toMatchObject({
      code: 'internal',
      message: expect.stringContaining(id),
      details: { layer: id },
      hint: expect.stringContaining('backup'),
    })
    expect(left()).toEqual([])
  })

  it('the holds of another process end with it', async () => {
    const id = await add('one')
    const other = await inAnotherProcess(`
      const draft = await layers.begin(['${id}'])
      console.log(draft.id)`)
    try {
      expect(await layers.sweep(nothingUsed)).toEqual([])
      expect(left().sort()).toEqual([`.${other.said}`, id].sort())
    } finally {
      await other.kill()
    }
    expect((await layers.sweep(nothingUsed)).sort()).toEqual([id, other.said].sort())
    expect(left()).toEqual([])
    expect(readdirSync(path.join(root, 'layers/holds'))).toEqual([])
  })

  it('two processes that seal and sweep at once keep all named layers', async () => {
    const code = `
      const named = new Set()
      for (let turn = 0; turn < 30; turn++) {
        const draft = await layers.begin([...named].slice(-1))
        mkdirSync(draft.tree)
        layers.seal(draft.id)
        draft.keep()
        const snapshotId = await snapshots.add({ sandboxId: 'x', layers: [draft.id], image: 'host', workdir: '/' })
        await draft.done()
        if (turn % 3 === 0) await snapshots.delete(snapshotId)
        else named.add(draft.id)
        if (turn % 5 === 0) await layers.sweep(async () => new Set(snapshots.all().flatMap(({ layers }) => layers)))
      }
      console.log([...named].join(' '))`
    const others = await Promise.all([inAnotherProcess(code), inAnotherProcess(code)])
    const named = others.flatMap(({ said }) => said.split(' '))
    await Promise.all(others.map((other) => other.kill()))
    await layers.sweep(async () => new Set(snapshots.all().flatMap(({ layers }) => layers)))
    expect(left().sort()).toEqual(named.sort())
  }, 30_000)
})

describe('snapshots', () => {
  it('are listed with their sizes, oldest first, and deleted once', async () => {
    const [one, two] = [await add('one'), await add('x'.repeat(100_000))]
    const first = await snapshots.add({
      sandboxId: 's',
      layers: [one],
      image: 'host',
      workdir: '/w',
      name: 'first',
    })
    await new Promise((resolve) => setTimeout(resolve, 2))
    const second = await snapshots.add({ sandboxId: 's', layers: [two, one], image: 'host', workdir: '/w' })
    const [small, large] = await snapshots.list()
    expect(small).toMatchObject({ snapshotId: first, name: 'first', sandboxId: 's' })
    expect(large!.snapshotId).toBe(second)
    expect(large!.sizeBytes! - small!.sizeBytes!).toBeGreaterThan(100_000)
    expect([await snapshots.delete(first), await snapshots.delete(first)]).toEqual([true, false])
    expect((await snapshots.list()).map(({ snapshotId }) => snapshotId)).toEqual([second])
  })

  it('a damaged record is an error and stops the sweep', async () => {
    const id = await add('one')
    const snapshotId = await snapshots.add({ sandboxId: 's', layers: [id], image: 'host', workdir: '/w' })
    writeFileSync(path.join(root, 'snapshots', `${snapshotId}.json`), '{"version"')
    const sweep = layers.sweep(async () => new Set(snapshots.all().flatMap(({ layers }) => layers)))
    await expect(sweep).rejects.toMatchObject({ message: expect.stringContaining(snapshotId) })
    expect(left()).toEqual([id])
  })

  it('a path is not a snapshot id', () => {
    for (const id of ['../x', 'no-such', '', 'a'.repeat(16)])
      expect(() => snapshots.get(id)).toThrow(expect.objectContaining({ code: 'not_found' }))
  })
})

/** Runs JavaScript over the same root in a process that runs until it is killed. Resolves to its first output. */
async function inAnotherProcess(code: string): Promise<{ said: string; kill(): Promise<void> }> {
  const module = JSON.stringify(new URL('./index.ts', import.meta.url).href)
  const script = `import { mkdirSync } from 'node:fs'
    const { LayerStore, Snapshots, Trees } = await import(${module})
    const layers = new LayerStore(${JSON.stringify(root)}, new Trees(async () => ${JSON.stringify(await runner())}))
    const snapshots = new Snapshots(${JSON.stringify(root)}, layers)
    ${code}
    setInterval(() => {}, 1000)`
  const args = ['--conditions=sandkasten-source', '--input-type=module', '-e', script]
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const said = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.stdout!.on('data', (chunk) => {
      text += chunk
      if (text.includes('\n')) resolve(text.trim())
    })
    child.once('exit', () => reject(new Error(`it ended: ${text}`)))
  })
  return {
    said,
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

async function runner(): Promise<string> {
  return process.env.SANDKASTEN_RUNNER ?? (await buildRunner())
}
