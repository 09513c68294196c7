/**
 * Random histories of a project: files are added, renamed, moved, changed and removed, classes renamed and deleted.
 * After each step the config must be valid. Wrangler itself reads every config; an independent oracle replays the
 * history.
 */
import { parse } from 'jsonc-parser'
import { expect, test } from 'vitest'
import { unstable_readConfig as readWranglerConfig } from 'wrangler'
import { type Random, random, seeds } from '../../../test/random.ts'
import { sync } from '../src/sync.ts'
import { CORPUS } from './corpus.ts'
import { type Project, project, sandbox } from './project.ts'

const BASES = ['shell', 'python', 'code-interpreter', 'data', 'scratch']
const CLASSES = ['ShellSandbox', 'PythonSandbox', 'Interpreter', 'DataBox', 'Scratch', 'Another', 'LastOne']
const TYPES = ['lite', 'basic', 'standard-1', 'standard-4']
const STARTS = CORPUS.filter(({ name }) => !/K5|K2|numbered|empty file|only a comment/.test(name))

interface World {
  project: Project
  /** base name → class and body */
  files: Map<string, { className: string; body: string }>
  log: string[]
}

test('the config stays valid, whatever happens to the files', { timeout: 120_000 }, async () => {
  for (const seed of seeds(40)) {
    const rng = random(seed)
    const start = rng.pick(STARTS)
    const world: World = {
      project: project({ 'wrangler.jsonc': start.text }),
      files: new Map(),
      log: [start.name],
    }
    try {
      for (let step = 0; step < 12; step++) await live(world, rng)
    } catch (error) {
      throw new Error(
        `SANDKASTEN_SEED=${seed}\n${world.log.join('\n')}\n${world.project.read('wrangler.jsonc')}`,
        { cause: error },
      )
    }
  }
})

async function live(world: World, rng: Random): Promise<void> {
  const { root, read, path } = world.project
  const tagsBefore = tags(read('wrangler.jsonc'))
  const othersBefore = foreign(read('wrangler.jsonc'))
  const changes = 1 + rng.below(2)
  const deleteClasses: string[] = []
  for (let change = 0; change < changes; change++) mutate(world, rng, deleteClasses)
  const live = [...foldByHand(config(read('wrangler.jsonc')).migrations ?? [])]
  const used = new Set([...world.files.values()].map(({ className }) => className))
  const deletable = deleteClasses.filter((name) => live.includes(name) && !used.has(name))
  await sync({ root, deleteClasses: deletable.length > 0 ? deletable : undefined })

  const text = read('wrangler.jsonc')
  const value = config(text)
  readWranglerConfig({ config: path('wrangler.jsonc') }, { hideWarnings: true })
  const owned = (value.containers ?? []).filter(({ class_name }: Entry) => CLASSES.includes(class_name))
  expect(owned).toHaveLength(world.files.size)
  const existing = foldByHand(value.migrations ?? [])
  for (const [base, { className }] of world.files) {
    const binding = `${base.replaceAll('-', '_').toUpperCase()}_SANDBOX`
    const bindings = value.durable_objects.bindings as Entry[]
    expect(bindings.filter(({ class_name }) => class_name === className)).toEqual([
      { name: binding, class_name: className },
    ])
    expect(bindings.filter(({ name }) => name === binding)).toHaveLength(1)
    expect(owned.filter(({ class_name }: Entry) => class_name === className)).toHaveLength(1)
    expect(existing.has(className), `${className} was made once and not ended`).toBe(true)
  }
  const after = tags(text)
  expect(new Set(after).size).toBe(after.length)
  expect(after.slice(0, tagsBefore.length)).toEqual(tagsBefore)
  expect(foreign(text)).toEqual(othersBefore)
  expect((await sync({ root })).written).toBe(false)
  expect(read('wrangler.jsonc')).toBe(text)
}

function mutate(
  { project: { write, remove }, files, log }: World,
  rng: Random,
  deleteClasses: string[],
): void {
  const file = (base: string) => `src/server/${base}.sandbox.ts`
  const freeBases = BASES.filter((base) => !files.has(base))
  const used = new Set([...files.values()].map(({ className }) => className))
  const freeClasses = CLASSES.filter((name) => !used.has(name))
  const put = (base: string, className: string, body: string) => {
    files.set(base, { className, body })
    write({ [file(base)]: sandbox(className, body) })
  }
  const action =
    files.size === 0 ? 'add' : rng.pick(['add', 'add', 'rename', 'move', 'retune', 'remove', 'delete'])
  const base = rng.pick([...files.keys(), ...(files.size === 0 ? freeBases : [])])
  const current = files.get(base)
  if (action === 'add' && freeBases.length > 0) {
    const [to, className] = [rng.pick(freeBases), rng.pick(freeClasses)]
    put(to, className, tuning(rng))
    log.push(`add ${to}: ${className}`)
  } else if (current && action === 'rename') {
    const className = rng.pick(freeClasses)
    put(base, className, current.body)
    log.push(`rename ${base}: ${current.className} → ${className}`)
  } else if (current && action === 'move' && freeBases.length > 0) {
    const to = rng.pick(freeBases)
    remove(file(base))
    files.delete(base)
    put(to, current.className, current.body)
    log.push(`move ${base} → ${to}: ${current.className}`)
  } else if (current && action === 'retune') {
    put(base, current.className, tuning(rng))
    log.push(`retune ${base}`)
  } else if (current && (action === 'remove' || action === 'delete')) {
    remove(file(base))
    files.delete(base)
    if (action === 'delete') deleteClasses.push(current.className)
    log.push(`${action} ${base}: ${current.className}`)
  }
}

function tuning(rng: Random): string {
  const fields: string[] = []
  if (rng.below(2)) fields.push(`static instanceType = '${rng.pick(TYPES)}'`)
  if (rng.below(2)) fields.push(`static maxInstances = ${1 + rng.below(20)}`)
  if (rng.below(3) === 0) fields.push("static image = 'docker.io/cloudflare/sandbox:0.8.11-python'")
  return fields.join('\n')
}

type Entry = { name: string; class_name: string }

function config(text: string) {
  return parse(text.replace(/^\ufeff/, ''), [], { allowTrailingComma: true }) ?? {}
}

function tags(text: string): string[] {
  return (config(text).migrations ?? []).map(({ tag }: { tag: string }) => tag)
}

function foreign(text: string) {
  const { containers, durable_objects, migrations, ...rest } = config(text)
  const others = (list: Entry[] = []) => list.filter(({ class_name }) => !CLASSES.includes(class_name))
  return { rest, containers: others(containers), bindings: others(durable_objects?.bindings) }
}

/** Replays the history as Cloudflare does, independently of the tested code, and throws where Cloudflare would. */
function foldByHand(migrations: { [step: string]: never[] }[]): Set<string> {
  const alive = new Set<string>()
  for (const step of migrations) {
    for (const name of step.deleted_classes ?? [])
      if (!alive.delete(name)) throw new Error(`${name} deleted, not alive`)
    for (const { from, to } of (step.renamed_classes ?? []) as { from: string; to: string }[]) {
      if (!alive.delete(from)) throw new Error(`${from} renamed, not alive`)
      if (alive.has(to)) throw new Error(`renamed to ${to}, which is alive`)
      alive.add(to)
    }
    for (const name of [...(step.new_classes ?? []), ...(step.new_sqlite_classes ?? [])]) {
      if (alive.has(name)) throw new Error(`${name} made twice`)
      alive.add(name)
    }
  }
  return alive
}
