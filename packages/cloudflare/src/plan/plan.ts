/**
 * The second stage: turns sources, config and record into a list of edits and the next record. Pure: no clock and no
 * disk. Applying the plan and planning again gives no edits.
 */
import type { SandboxSource } from '../discover/discover.ts'
import type { InstanceType } from '../discover/statics.ts'
import type { Place, Problem } from '../problem.ts'
import { type Edit, inSafeOrder, isObject, type JsonObject, type Path, valueAt } from './edits.ts'
import { type Ownership, planEntries } from './entries.ts'
import { type EnvSelection, leftOutProblems, selectEnvironments } from './environments.ts'
import { planLifecycle } from './lifecycle.ts'
import type { Rename } from './migrations.ts'
import type { ContainerField, ManagedRecord, RecordedSandbox } from './record.ts'
import { resolveSandboxes } from './resolve.ts'
import { environmentNames, readSection, type Section, type Where } from './section.ts'

export interface PlannedSandbox {
  /** The record's key: the path relative to the config's folder. */
  key: string
  file: string
  /** The path relative to the config's folder, with `./`, for imports. */
  specifier: string
  place: Place
  className: string
  binding: string
  container: string
  image: string
  instanceType: InstanceType
  maxInstances: number | undefined
  previous: RecordedSandbox | undefined
}

export interface PlanInput {
  sources: SandboxSource[]
  config: JsonObject
  record: ManagedRecord
  configDir: string
  where: Where
  /** `2026-01-31`, for configs whose migration tags are dates. */
  today: string
  envs?: EnvSelection
  adopt?: boolean
  deleteClasses?: string[]
  renames?: Rename[]
}

export interface Plan {
  sandboxes: PlannedSandbox[]
  edits: Edit[]
  record: ManagedRecord
  problems: Problem[]
}

export function plan(input: PlanInput): Plan {
  const { config, record, where } = input
  const { sandboxes, problems } = resolveSandboxes(input.sources, input.configDir, record)
  const { envs, problems: envProblems } = selectEnvironments(config, input.envs, record, where)
  problems.push(...envProblems)

  const edits: Edit[] = []
  const read = (env: string | undefined) => readSection(config, env, where, problems)
  const top = read(undefined)
  const chosen = [top, ...envs.filter((env) => environmentNames(config).includes(env)).map(read)]
  const dropped = environmentNames(config).filter(
    (env) => !envs.includes(env) && isOwnedAnywhere(record, env),
  )
  for (const section of [...chosen, ...dropped.map(read)]) {
    const wanted = chosen.includes(section) ? sandboxes : []
    const entries = planEntries(section, wanted, ownershipOf(record, section), input.adopt === true, where)
    edits.push(...entries.edits)
    problems.push(...entries.problems)
  }
  const lifecycle = planLifecycle(input, sandboxes, chosen)
  edits.push(...lifecycle.edits)
  problems.push(...lifecycle.problems)
  problems.push(
    ...leftOutProblems(config, envs, sandboxes, where),
    ...oldPatternProblems(top, sandboxes, record, where),
  )

  const created = [...new Set([...record.created, ...newPaths(config, edits)])]
  const prunes = emptied(config, created, edits)
  const next: ManagedRecord = {
    version: 1,
    envs,
    sandboxes: Object.fromEntries(sandboxes.map((sandbox) => [sandbox.key, recorded(sandbox, envs)])),
    created: created.filter((path) => !prunes.some((prune) => prune.path.join('.') === path)),
    retired: lifecycle.retired,
  }
  return { sandboxes, edits: inSafeOrder([...edits, ...prunes]), record: next, problems }
}

/** Finds the manual setup of early SDK versions: a class named `Sandbox`. */
export function oldPatternPath(section: Section): Path | undefined {
  const isOld = (entry: unknown) =>
    isObject(entry as JsonObject) &&
    (entry as JsonObject).class_name === 'Sandbox' &&
    !('script_name' in (entry as JsonObject))
  const container = section.containers.findIndex(isOld)
  if (container !== -1) return [...section.path, 'containers', container]
  const binding = section.bindings.findIndex(isOld)
  return binding === -1 ? undefined : [...section.path, 'durable_objects', 'bindings', binding]
}

function oldPatternProblems(
  top: Section,
  sandboxes: PlannedSandbox[],
  record: ManagedRecord,
  where: Where,
): Problem[] {
  const path = oldPatternPath(top)
  // A class in the record is ours: this plan may be renaming it.
  const isOurs = Object.values(record.sandboxes).some((entry) => entry.class === 'Sandbox')
  if (!path || isOurs || sandboxes.some(({ className }) => className === 'Sandbox')) return []
  const message =
    'the class "Sandbox" is configured manually here: the old pattern, which allows only one class'
  const fix = 'run `sandkasten cloudflare migrate --name shell`'
  return [{ severity: 'warning', code: 'old-pattern', message, place: where(path), fix }]
}

function recorded(sandbox: PlannedSandbox, envs: string[]): RecordedSandbox {
  const fields: ContainerField[] = ['name', 'image', 'instance_type']
  if (sandbox.maxInstances !== undefined) fields.push('max_instances')
  const entry: RecordedSandbox = {
    class: sandbox.className,
    binding: sandbox.binding,
    container: sandbox.container,
    fields,
  }
  if (envs.length > 0) entry.envs = [...envs].sort()
  return entry
}

function ownershipOf(record: ManagedRecord, section: Section): Ownership {
  const owned: Ownership = { classes: new Map(), bindings: new Map() }
  for (const entry of Object.values(record.sandboxes)) {
    if (section.env !== undefined && !entry.envs?.includes(section.env)) continue
    owned.classes.set(entry.class, entry.fields)
    owned.bindings.set(entry.binding, entry.class)
  }
  return owned
}

function isOwnedAnywhere(record: ManagedRecord, env: string): boolean {
  return Object.values(record.sandboxes).some(({ envs }) => envs?.includes(env))
}

/** Every array and object that an append must create first. */
function newPaths(config: JsonObject, edits: Edit[]): string[] {
  const paths: string[] = []
  for (const edit of edits) {
    if (edit.op !== 'append' || edit.path.at(-1) === 'migrations') continue
    const start = edit.path[0] === 'env' ? 3 : 1
    for (let length = start; length <= edit.path.length; length++) {
      const path = edit.path.slice(0, length)
      if (valueAt(config, path) === undefined) paths.push(path.join('.'))
    }
  }
  return paths
}

function emptied(config: JsonObject, created: string[], edits: Edit[]): Edit[] {
  const prunes: Edit[] = []
  const isArrayEmptied = (path: Path) => {
    const value = valueAt(config, path)
    const removed = edits.filter((edit) => edit.op === 'remove' && isChild(edit.path, path)).length
    const added = edits.some((edit) => edit.op === 'append' && edit.path.join('.') === path.join('.'))
    return Array.isArray(value) && !added && removed > 0 && value.length === removed
  }
  const paths = created.map((text) => text.split('.')).sort((a, b) => b.length - a.length)
  for (const path of paths) {
    const value = valueAt(config, path)
    const inner = [...path, 'bindings']
    const onlyBindings = isObject(value) && Object.keys(value).join() === 'bindings' && isArrayEmptied(inner)
    if (isArrayEmptied(path) || onlyBindings)
      prunes.push({ op: 'prune', path, why: `remove the empty ${path.join('.')}` })
  }
  return prunes
}

function isChild(path: Path, parent: Path): boolean {
  return path.length === parent.length + 1 && parent.every((part, index) => part === path[index])
}
