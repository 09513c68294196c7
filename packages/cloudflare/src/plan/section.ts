/**
 * A wrangler config has one unnamed environment and any number of named ones. A section is one of them. Named
 * environments do not inherit `containers` and `durable_objects`; they inherit `migrations` and `exports` unless they
 * have their own.
 */
import type { Place, Problem } from '../problem.ts'
import { isObject, type Json, type JsonObject, type Path, valueAt } from './edits.ts'

export interface Section {
  /** Undefined for the top level. */
  env: string | undefined
  path: Path
  containers: Json[]
  bindings: Json[]
  /** Undefined if this environment has no migrations of its own. */
  migrations: Json[] | undefined
  exports: JsonObject | undefined
}

export type Where = (path: Path) => Place

/** Reads a section. A value of the wrong type is an error at its position, because an edit would make it worse. */
export function readSection(
  config: JsonObject,
  env: string | undefined,
  where: Where,
  problems: Problem[],
): Section {
  const path: Path = env === undefined ? [] : ['env', env]
  const wrong = (at: Path, wanted: string) => {
    const message = `${at.join('.')} must be ${wanted}`
    problems.push({
      severity: 'error',
      code: 'bad-config',
      message,
      place: where(at),
      fix: 'see wrangler’s schema',
    })
  }
  const list = (...rest: Path): Json[] | undefined => {
    const at = [...path, ...rest]
    const value = valueAt(config, at)
    if (value === undefined || Array.isArray(value)) return value
    wrong(at, 'an array')
    return undefined
  }
  const durableObjects = valueAt(config, [...path, 'durable_objects'])
  if (durableObjects !== undefined && !isObject(durableObjects))
    wrong([...path, 'durable_objects'], 'an object')
  const exports = valueAt(config, [...path, 'exports'])
  return {
    env,
    path,
    containers: list('containers') ?? [],
    bindings: isObject(durableObjects) ? (list('durable_objects', 'bindings') ?? []) : [],
    migrations: list('migrations'),
    exports: isObject(exports) ? exports : undefined,
  }
}

export function environmentNames(config: JsonObject): string[] {
  return isObject(config.env) ? Object.keys(config.env) : []
}

/** Whether a section declares its classes in `exports`, wrangler's newer way, which excludes `migrations`. */
export function usesExports(exports: JsonObject | undefined): exports is JsonObject {
  return Object.values(exports ?? {}).some((entry) => isObject(entry) && entry.type === 'durable-object')
}

export function sectionName(env: string | undefined): string {
  return env === undefined ? 'the top level' : `env.${env}`
}
