/** Which named environments are updated, and notes about the others. */
import type { Problem } from '../problem.ts'
import { isObject, type JsonObject } from './edits.ts'
import type { PlannedSandbox } from './plan.ts'
import type { ManagedRecord } from './record.ts'
import { environmentNames, readSection, type Where } from './section.ts'

/** `all`, or the names; undefined: as recorded. */
export type EnvSelection = 'all' | string[] | undefined

export function selectEnvironments(
  config: JsonObject,
  selection: EnvSelection,
  record: ManagedRecord,
  where: Where,
): { envs: string[]; problems: Problem[] } {
  const existing = environmentNames(config)
  if (selection === 'all') return { envs: existing, problems: [] }
  const asked = [...new Set(selection ?? record.envs)]
  const missing = asked.filter((env) => !existing.includes(env))
  // A recorded environment that was removed from the config needs no entries; a missing one that you
  // requested is a typo.
  if (selection === undefined) return { envs: asked.filter((env) => existing.includes(env)), problems: [] }
  const problems = missing.map((env): Problem => {
    const known = existing.length > 0 ? `it has ${existing.join(', ')}` : 'it has none'
    const fix = `add "env": { "${env}": {} } to it, or choose another`
    return {
      severity: 'error',
      code: 'no-env',
      message: `there is no env.${env}: ${known}`,
      place: where([]),
      fix,
    }
  })
  return { envs: asked, problems }
}

/** A named environment does not inherit containers or bindings: its deploy would lack the sandboxes. */
export function leftOutProblems(
  config: JsonObject,
  selected: string[],
  sandboxes: PlannedSandbox[],
  where: Where,
): Problem[] {
  const problems: Problem[] = []
  for (const env of environmentNames(config)) {
    if (selected.includes(env)) continue
    const section = readSection(config, env, where, [])
    const bound = new Set(section.bindings.filter(isObject).map(({ class_name }) => class_name))
    const missing = sandboxes.filter(({ className }) => !bound.has(className)).map(({ binding }) => binding)
    if (missing.length === 0) continue
    problems.push({
      severity: 'warning',
      code: 'env-left-out',
      message: `env.${env} does not inherit bindings and containers: a deploy of it has no ${missing.join(', ')}`,
      place: where(['env', env]),
      fix: `run \`sync --env ${env}\` (the choice is recorded), or ignore this if it is intended`,
    })
  }
  return problems
}
