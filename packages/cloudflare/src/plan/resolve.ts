/** Determines names, image and defaults of every sandbox, and detects collisions. */
import type { SandboxSource } from '../discover/discover.ts'
import { dotRelative, posixRelative } from '../paths.ts'
import { formatPlace, type Problem } from '../problem.ts'
import { resolveImage } from './image.ts'
import { badNameProblem, namesOf } from './names.ts'
import type { PlannedSandbox } from './plan.ts'
import type { ManagedRecord } from './record.ts'

export const DEFAULT_INSTANCE_TYPE = 'lite'

export function resolveSandboxes(
  sources: SandboxSource[],
  configDir: string,
  record: ManagedRecord,
): { sandboxes: PlannedSandbox[]; problems: Problem[] } {
  const problems: Problem[] = []
  const sandboxes: PlannedSandbox[] = []
  for (const source of sources) {
    const names = namesOf(source.baseName)
    if (!names) problems.push(badNameProblem(source.file, source.baseName))
    const resolved = resolveImage(source, configDir)
    problems.push(...resolved.problems)
    if (!names || !resolved.image) continue
    const { statics } = source
    sandboxes.push({
      key: posixRelative(configDir, source.path),
      file: source.file,
      specifier: dotRelative(configDir, source.path),
      place: source.place,
      className: source.className,
      binding: names.binding,
      container: statics.containerName?.value ?? names.container,
      image: resolved.image,
      instanceType: statics.instanceType?.value ?? DEFAULT_INSTANCE_TYPE,
      maxInstances: statics.maxInstances?.value,
      previous: undefined,
    })
  }
  rememberPast(sandboxes, record)
  problems.push(...collisions(sandboxes))
  return { sandboxes, problems }
}

/** A known file keeps its past; a class that moved to another file takes its past along. */
function rememberPast(sandboxes: PlannedSandbox[], record: ManagedRecord): void {
  const keys = new Set(sandboxes.map(({ key }) => key))
  for (const sandbox of sandboxes) {
    const moved = Object.entries(record.sandboxes).find(
      ([key, entry]) => !keys.has(key) && entry.class === sandbox.className,
    )
    sandbox.previous = record.sandboxes[sandbox.key] ?? moved?.[1]
  }
}

function collisions(sandboxes: PlannedSandbox[]): Problem[] {
  const problems: Problem[] = []
  const rules = [
    { what: 'binding', of: (one: PlannedSandbox) => one.binding, fix: 'rename one of the files' },
    { what: 'class', of: (one: PlannedSandbox) => one.className, fix: 'rename one of the classes' },
    {
      what: 'container',
      of: (one: PlannedSandbox) => one.container,
      fix: 'change one `static containerName` or file name',
    },
  ]
  for (const { what, of, fix } of rules) {
    const first = new Map<string, PlannedSandbox>()
    for (const sandbox of sandboxes) {
      const other = first.get(of(sandbox))
      if (!other) {
        first.set(of(sandbox), sandbox)
        continue
      }
      // Files with the same binding have the same container name; report it once.
      if (what === 'container' && other.binding === sandbox.binding) continue
      const message = `${formatPlace(other.place)} makes the ${what} ${of(sandbox)} too`
      problems.push({ severity: 'error', code: 'collision', message, place: sandbox.place, fix })
    }
  }
  return problems
}
