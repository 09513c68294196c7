/**
 * A wrangler config is one unnamed environment and any number of named ones. `containers` and `durable_objects` are not
 * inherited by a named environment; `migrations` and `exports` are, unless it has its own. A section is one of them.
 */
import type { Place, Problem } from '../problem.ts'
import { isObject, type Json, type JsonObject, type Path, valueAt } from './edits.ts'

export interface Section {
  /** Undefined for the top level. */
  env: string | undefined
  path: Path
  containers: Json[]
  bindings: Json[]
  /** Undefined when this environment has none of its own. */
  migrations: Json[] | undefined
  exports: JsonObject | undefined
}

export type Where = (path: Path) => Place

/** Reads a section; what has the wrong shape is an error at its place, because writing into it would make it worse. */
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

/** The names of the environments that the config has. */
export function environmentNames(config: JsonObject): string[] {
  return isObject(config.env) ? Object.keys(config.env) : []
}

/** Whether the classes of a section live in `exports`, wrangler's newer way, which excludes `migrations`. */
export function usesExports(exports: JsonObject | undefined): exports is JsonObject {
  return Object.values(exports ?? {}).some((entry) => isObject(entry) && entry.type === 'durable-object')
}

export function sectionName(env: string | undefined): string {
  return env === undefined ? 'the top level' : `env.${env}`
}
