/**
 * Reconciles containers and bindings of one section with the sources. Every existing entry is claimed at most once,
 * in this order:
 *
 *   1. by its identity   a container by its class, a binding by its name
 *   2. by its past       an entry of ours that had the earlier class (or name) of the same file
 *   3. nothing claimed   a new entry at the end
 *   4. ours, unclaimed   removed
 *
 * An entry of step 1 that is not ours is taken over only if it equals what we would write. Otherwise it is a
 * conflict, reported with both positions; `adopt` overrides it.
 */
import type { Problem } from '../problem.ts'
import { type Edit, isObject, type Json, type JsonObject, type Path, sameJson } from './edits.ts'
import type { PlannedSandbox } from './plan.ts'
import type { ContainerField } from './record.ts'
import { type Section, sectionName, type Where } from './section.ts'

export interface Ownership {
  /** Class → managed fields of its container, in this section. */
  classes: Map<string, ContainerField[]>
  bindings: Map<string, string>
}

export interface EntryPlan {
  edits: Edit[]
  problems: Problem[]
}

interface Kind {
  path: Path
  entries: Json[]
  layout: 'block' | 'inline'
  label: string
  identity: 'class_name' | 'name'
  isOurs(entry: JsonObject): boolean
  wanted(sandbox: PlannedSandbox): JsonObject
  past(sandbox: PlannedSandbox, entry: JsonObject): boolean
  outdated(sandbox: PlannedSandbox, entry: JsonObject): string[]
}

export function planEntries(
  section: Section,
  sandboxes: PlannedSandbox[],
  owned: Ownership,
  adopt: boolean,
  where: Where,
): EntryPlan {
  const plan: EntryPlan = { edits: [], problems: [] }
  for (const kind of [containerKind(section, owned), bindingKind(section, owned)]) {
    reconcile(kind, section, sandboxes, adopt, where, plan)
  }
  return plan
}

/** The container entry of a sandbox. Its name includes a named environment, because names are account-wide. */
export function containerOf(sandbox: PlannedSandbox, env: string | undefined): JsonObject {
  const name = env === undefined ? sandbox.container : `${sandbox.container}-${env.toLowerCase()}`
  const entry: JsonObject = {
    name,
    class_name: sandbox.className,
    image: sandbox.image,
    instance_type: sandbox.instanceType,
  }
  if (sandbox.maxInstances !== undefined) entry.max_instances = sandbox.maxInstances
  return entry
}

export function bindingOf(sandbox: PlannedSandbox): JsonObject {
  return { name: sandbox.binding, class_name: sandbox.className }
}

function containerKind(section: Section, owned: Ownership): Kind {
  return {
    path: [...section.path, 'containers'],
    entries: section.containers,
    layout: 'block',
    label: 'container',
    identity: 'class_name',
    isOurs: (entry) => owned.classes.has(String(entry.class_name)),
    wanted: (sandbox) => containerOf(sandbox, section.env),
    past: (sandbox, entry) => sandbox.previous?.class === entry.class_name,
    outdated: (sandbox, entry) => {
      const fields = owned.classes.get(String(entry.class_name)) ?? []
      const gone = sandbox.maxInstances === undefined && fields.includes('max_instances')
      return gone && 'max_instances' in entry ? ['max_instances'] : []
    },
  }
}

function bindingKind(section: Section, owned: Ownership): Kind {
  return {
    path: [...section.path, 'durable_objects', 'bindings'],
    entries: section.bindings,
    layout: 'inline',
    label: 'binding',
    identity: 'name',
    isOurs: (entry) => {
      const known = owned.bindings.get(String(entry.name))
      return known !== undefined && !('script_name' in entry) && owned.classes.has(String(entry.class_name))
    },
    wanted: bindingOf,
    past: (sandbox, entry) => sandbox.previous?.binding === entry.name,
    outdated: () => [],
  }
}

function reconcile(
  kind: Kind,
  section: Section,
  sandboxes: PlannedSandbox[],
  adopt: boolean,
  where: Where,
  plan: EntryPlan,
): void {
  const claimed = new Map<number, PlannedSandbox>()
  const claim = (sandbox: PlannedSandbox, matches: (entry: JsonObject) => boolean): boolean => {
    const index = kind.entries.findIndex((entry, at) => !claimed.has(at) && isObject(entry) && matches(entry))
    if (index !== -1) claimed.set(index, sandbox)
    return index !== -1
  }
  const byIdentity = sandboxes.filter(
    (sandbox) => !claim(sandbox, (entry) => entry[kind.identity] === kind.wanted(sandbox)[kind.identity]),
  )
  const fresh = byIdentity.filter(
    (sandbox) => !claim(sandbox, (entry) => kind.isOurs(entry) && kind.past(sandbox, entry)),
  )
  for (const [index, sandbox] of claimed) update(kind, index, sandbox, adopt, where, plan)
  if (fresh.length > 0) {
    const names = fresh.map((sandbox) => `${kind.wanted(sandbox).name} (${sandbox.file})`).join(', ')
    const why = `add ${kind.label} ${names} to ${sectionName(section.env)}`
    plan.edits.push({
      op: 'append',
      path: kind.path,
      values: fresh.map(kind.wanted),
      layout: kind.layout,
      why,
    })
  }
  for (const [index, entry] of kind.entries.entries()) {
    if (claimed.has(index) || !isObject(entry)) continue
    if (kind.isOurs(entry)) {
      const isDropped = section.env !== undefined && sandboxes.length === 0
      const reason = isDropped ? 'its file or its environment was removed' : 'its file was removed'
      const name = entry.name ?? entry.class_name
      const why = `remove ${kind.label} ${name} from ${sectionName(section.env)}: ${reason}`
      plan.edits.push({ op: 'remove', path: [...kind.path, index], why })
    } else refuseClash(kind, entry, index, claimed, fresh, where, plan)
  }
}

function update(
  kind: Kind,
  index: number,
  sandbox: PlannedSandbox,
  adopt: boolean,
  where: Where,
  plan: EntryPlan,
): void {
  const entry = kind.entries[index] as JsonObject
  const wanted = kind.wanted(sandbox)
  const path = [...kind.path, index]
  const different = Object.keys(wanted).filter((key) => !sameJson(entry[key], wanted[key]))
  if (different.length > 0 && !kind.isOurs(entry) && !adopt) {
    const told = different.map(
      (key) => `${key} ${JSON.stringify(entry[key]) ?? 'is missing'} ≠ ${JSON.stringify(wanted[key])}`,
    )
    plan.problems.push({
      severity: 'error',
      code: 'hand-written',
      message: `this ${kind.label} was written by hand and differs from ${sandbox.file}: ${told.join('; ')}`,
      place: where(path),
      fix: `make them agree, remove it, or run \`sync --adopt\` to let ${sandbox.file} decide from now on`,
    })
    return
  }
  for (const key of different) {
    const before = key in entry ? `${JSON.stringify(entry[key])} → ` : ''
    const why = `${kind.label} ${wanted.name}: ${key} ${before}${JSON.stringify(wanted[key])} (${sandbox.file})`
    plan.edits.push({ op: 'set', path: [...path, key], value: wanted[key]!, why })
  }
  for (const key of kind.outdated(sandbox, entry)) {
    const why = `${kind.label} ${wanted.name}: ${key} is no longer set by ${sandbox.file}`
    plan.edits.push({ op: 'remove', path: [...path, key], why })
  }
}

/** Rejects two containers of one class or name, and two bindings of one name. */
function refuseClash(
  kind: Kind,
  entry: JsonObject,
  index: number,
  claimed: Map<number, PlannedSandbox>,
  fresh: PlannedSandbox[],
  where: Where,
  plan: EntryPlan,
): void {
  for (const sandbox of [...claimed.values(), ...fresh]) {
    const wanted = kind.wanted(sandbox)
    const key = entry[kind.identity] === wanted[kind.identity] ? kind.identity : 'name'
    if (entry[key] !== wanted[key]) continue
    plan.problems.push({
      severity: 'error',
      code: 'clash',
      message: `this ${kind.label} has the ${key} ${JSON.stringify(wanted[key])}, which belongs to ${sandbox.file}`,
      place: where([...kind.path, index]),
      fix: `rename it or remove it${kind.label === 'container' ? ', or set `static containerName` in the class' : ''}`,
    })
  }
}
