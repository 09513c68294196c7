/**
 * Plans which classes are created, renamed and deleted: the migrations of every list that a selected section uses.
 */
import type { Problem } from '../problem.ts'
import { type Edit, isObject, type Path } from './edits.ts'
import { foldMigrations, planMigrations, type Rename, repeatedTags, storageProblems } from './migrations.ts'
import type { PlanInput, PlannedSandbox } from './plan.ts'
import { type Section, usesExports } from './section.ts'

export interface Lifecycle {
  edits: Edit[]
  problems: Problem[]
  retired: string[]
}

export function planLifecycle(input: PlanInput, sandboxes: PlannedSandbox[], sections: Section[]): Lifecycle {
  const result: Lifecycle = { edits: [], problems: [], retired: [] }
  const classes = sandboxes.map(({ className }) => className)
  const deletes = input.deleteClasses ?? []
  const asked = input.renames ?? []
  const seen = seenRenames(sandboxes, classes).filter(
    ({ from }) => !asked.some((rename) => rename.from === from),
  )
  const renames = [...asked, ...seen]
  checkAsked(input, sandboxes, result.problems)
  result.problems.push(...movedProblems(sandboxes, input.renames ?? []))

  const [top] = sections
  for (const section of sections) {
    if (section !== top && section.migrations === undefined) continue
    const path: Path = [...section.path, 'migrations']
    const migrations = section.migrations ?? []
    for (const { tag, first, second } of repeatedTags(migrations)) {
      const line = input.where([...path, first]).line
      const message = `duplicate tag “${tag}”, also on line ${line ?? '?'}: Cloudflare would skip one of them`
      const fix =
        'give the tag that is not deployed yet another name; after a merge that is usually the later one'
      result.problems.push({
        severity: 'error',
        code: 'repeated-tag',
        message,
        place: input.where([...path, second]),
        fix,
      })
    }
    const exports = section.exports ?? top?.exports
    if (usesExports(exports)) {
      result.problems.push(...exportsProblems(exports, sandboxes, input))
      continue
    }
    result.problems.push(...storageProblems(foldMigrations(migrations), classes))
    const values = planMigrations(migrations, { classes, renames, deletes, today: input.today })
    for (const value of values) {
      const { tag, ...steps } = value
      const why = `migration ${tag}: ${Object.entries(steps)
        .map(([step, list]) => `${step} ${describe(list)}`)
        .join(', ')}`
      result.edits.push({ op: 'append', path, values: [value], layout: 'inline', why })
    }
  }
  retire(input, sandboxes, renames, top?.migrations ?? [], result)
  return result
}

/** A file with a new class means a rename, unless another file declares the old class. */
function seenRenames(sandboxes: PlannedSandbox[], classes: string[]): Rename[] {
  return sandboxes.flatMap(({ previous, className }) => {
    if (!previous || previous.class === className || classes.includes(previous.class)) return []
    return [{ from: previous.class, to: className }]
  })
}

/** A class that another file now declares: moved, or replaced? Its objects stay with the name, so nothing is lost. */
function movedProblems(sandboxes: PlannedSandbox[], asked: Rename[]): Problem[] {
  return sandboxes.flatMap(({ previous, className, place }): Problem[] => {
    const taker = sandboxes.find((other) => other.className === previous?.class)
    if (
      !previous ||
      !taker ||
      previous.class === className ||
      asked.some(({ from }) => from === previous.class)
    )
      return []
    const message = `${previous.class} was the class of this file and is now that of ${taker.file}: its objects go with the name`
    const fix = `if ${previous.class} was renamed to ${className} instead: \`sync --rename ${previous.class}=${className}\`, before the next sync`
    return [{ severity: 'warning', code: 'class-moved', message, place, fix }]
  })
}

function checkAsked(input: PlanInput, sandboxes: PlannedSandbox[], problems: Problem[]): void {
  const live = foldMigrations(Array.isArray(input.config.migrations) ? input.config.migrations : [])
  const error = (message: string, fix: string) => {
    problems.push({
      severity: 'error',
      code: 'bad-request',
      message,
      place: input.where(['migrations']),
      fix,
    })
  }
  for (const name of input.deleteClasses ?? []) {
    const user = sandboxes.find(({ className }) => className === name)
    if (user)
      error(`${name} is still the class of ${user.file}`, 'remove the file first, or do not delete the class')
    else if (!live.has(name))
      error(`no migration made a class ${name}`, `known: ${[...live.keys()].join(', ') || 'none'}`)
  }
  for (const { from, to } of input.renames ?? []) {
    if (!sandboxes.some(({ className }) => className === to))
      error(`no sandbox file has a class ${to}`, 'check the name')
    else if (!live.has(from) && !live.has(to)) error(`no migration made a class ${from}`, 'check the name')
  }
}

function exportsProblems(
  exports: { [name: string]: unknown },
  sandboxes: PlannedSandbox[],
  input: PlanInput,
): Problem[] {
  return sandboxes
    .filter(({ className }) => !isObject(exports[className] as never))
    .map(({ className }) => ({
      severity: 'error',
      code: 'uses-exports',
      message: `this config declares its classes in "exports", which excludes "migrations"; ${className} is not among them`,
      place: input.where(['exports']),
      fix: `add "${className}": { "type": "durable-object", "storage": "sqlite" } to "exports"`,
    }))
}

/** A class whose file is gone still exists in Cloudflare, and the next deploy fails until that is resolved. */
function retire(
  input: PlanInput,
  sandboxes: PlannedSandbox[],
  renames: Rename[],
  migrations: Parameters<typeof foldMigrations>[0],
  result: Lifecycle,
): void {
  const live = foldMigrations(migrations)
  const gone = new Set([
    ...sandboxes.map(({ className }) => className),
    ...renames
      .filter(({ to }) => !live.has(to) || renames.some(({ from }) => from === to))
      .map(({ from }) => from),
    ...(input.deleteClasses ?? []),
  ])
  const known = [
    ...input.record.retired,
    ...Object.values(input.record.sandboxes).map((entry) => entry.class),
  ]
  result.retired = [...new Set(known)].filter((name) => live.has(name) && !gone.has(name))
  for (const name of result.retired) {
    result.problems.push({
      severity: 'warning',
      code: 'retired-class',
      message: `no file declares ${name} any more, but its objects and their data still exist in Cloudflare`,
      place: input.where(['migrations']),
      fix: `\`sync --delete-class ${name}\` deletes them with the next deploy; \`sync --rename ${name}=NewName\` keeps them;\nuntil then a deploy without the class is refused by Cloudflare`,
    })
  }
}

function describe(list: unknown): string {
  if (!Array.isArray(list)) return String(list)
  return list.map((item) => (typeof item === 'string' ? item : `${item.from} → ${item.to}`)).join(', ')
}
