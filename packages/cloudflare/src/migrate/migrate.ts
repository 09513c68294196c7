/**
 * Migrates the hand-written class `Sandbox` to a sandbox file. Deleting and recreating the three entries would
 * rewrite migration history and abandon every existing object. So the old class is renamed: the record gets the class
 * `Sandbox` as the past of the new file, and the ordinary plan does the rest. Entries change in place,
 * `renamed_classes` is appended, and data is kept.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { withLock } from '../apply/lock.ts'
import { type ConfigFile, findConfig, missingConfig } from '../config-file.ts'
import { type Discovery, readSandbox } from '../discover/discover.ts'
import { posixRelative } from '../paths.ts'
import { type Edit, isObject } from '../plan/edits.ts'
import { badNameProblem, namesOf } from '../plan/names.ts'
import { oldPatternPath } from '../plan/plan.ts'
import { environmentNames, readSection, type Section } from '../plan/section.ts'
import { commit, prepare, rootOf, type SyncOptions, type SyncResult } from '../prepare.ts'
import { CloudflareSyncError, type Problem } from '../problem.ts'
import { resultOf } from '../sync.ts'
import { type CallSite, findCallSites, sourceFolder } from './call-sites.ts'
import { classNameOf, oldContainer, sandboxSource } from './source.ts'

export interface MigrateOptions extends SyncOptions {
  /** The name of the new file: `shell` creates `src/server/shell.sandbox.ts`. */
  name?: string
  /** Keep the binding `Sandbox` beside the new one, so that old call sites still work. */
  keepAlias?: boolean
  dryRun?: boolean
}

export interface MigrateResult extends SyncResult {
  steps: string[]
  callSites: CallSite[]
  source: { file: string; text: string } | undefined
}

/** Throws if there is nothing to migrate. Throws before anything is written if there is an error. */
export async function migrate(options: MigrateOptions = {}): Promise<MigrateResult> {
  const { path } = findConfig(rootOf(options), options.config)
  if (!path) throw new CloudflareSyncError([missingConfig('wrangler.jsonc')])
  const work = () => run(options)
  return options.dryRun ? work() : withLock(path, work)
}

function run(options: MigrateOptions): MigrateResult {
  const root = rootOf(options)
  const name = options.name ?? 'shell'
  const dir = options.dir ?? 'src/server'
  const path = join(resolve(root, dir), `${name}.sandbox.ts`)
  const file = posixRelative(root, path)
  const names = namesOf(name)
  if (!names) throw new CloudflareSyncError([badNameProblem(file, name)])
  let source: MigrateResult['source']
  let folder = root
  let configDir = root

  const adjust = (config: ConfigFile, discovery: Discovery): Edit[] => {
    folder = sourceFolder(config, root)
    configDir = config.dir
    const problems: Problem[] = []
    const sections = [undefined, ...environmentNames(config.value)].map((env) =>
      readSection(config.value, env, config.where, problems),
    )
    const old = sections.filter((section) => oldPatternPath(section))
    if (!old.includes(sections[0]!)) throw new CloudflareSyncError([nothingToMigrate(config)])
    if (!existsSync(path)) {
      const text = sandboxSource(classNameOf(name), names.container, oldContainer(sections[0]!), config, path)
      source = { file, text }
      const made = readSandbox(path, text, root, config.dir, problems)
      discovery.sandboxes = [...discovery.sandboxes, made].sort((a, b) => (a.path < b.path ? -1 : 1))
    }
    const envs = old.flatMap(({ env }) => (env === undefined ? [] : [env]))
    config.record.envs = [...new Set([...config.record.envs, ...envs])]
    const entry = {
      class: 'Sandbox',
      binding: options.keepAlias ? '' : oldBinding(sections[0]!),
      container: names.container,
      fields: ['name' as const, 'image' as const, 'instance_type' as const],
    }
    const mine = discovery.sandboxes.find((one) => one.path === path)!
    config.record.sandboxes[posixRelative(config.dir, path)] = envs.length > 0 ? { ...entry, envs } : entry
    return old.flatMap((section) => aliasEdits(section, mine.className, entry.binding))
  }
  const prepared = prepare({ ...options, callSites: false, adopt: true }, adjust)
  const sandbox = prepared.sandboxes.find((one) => one.file === file)!
  const callSites = findCallSites(folder, root, configDir, sandbox)
  const steps = [
    source ? `create ${file} with class ${sandbox.className}` : `use ${file}, class ${sandbox.className}`,
    ...prepared.edits.map(({ why }) => why),
    ...callSites.map(
      ({ place, found, instead }) =>
        `by hand, ${place.file}:${place.line}:${place.column}: ${found}  →  ${instead}`,
    ),
    'run `wrangler types` to refresh Env, then deploy',
  ]
  let written = false
  if (!options.dryRun) {
    if (source) {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, source.text, { flag: 'wx' })
    }
    try {
      written = commit(prepared)
    } catch (error) {
      if (source) rmSync(path, { force: true })
      throw error
    }
  }
  return { ...resultOf(prepared, written), steps, callSites, source }
}

function oldBinding(section: Section): string {
  const old = section.bindings.find(
    (one) => isObject(one) && one.class_name === 'Sandbox' && !('script_name' in one),
  )
  return isObject(old) ? String(old.name) : ''
}

/** Other bindings of the old class stay, but must refer to its new name. */
function aliasEdits(section: Section, className: string, taken: string): Edit[] {
  return section.bindings.flatMap((one, index): Edit[] => {
    if (!isObject(one) || one.class_name !== 'Sandbox' || 'script_name' in one || one.name === taken)
      return []
    const path = [...section.path, 'durable_objects', 'bindings', index, 'class_name']
    return [
      { op: 'set', path, value: className, why: `binding ${one.name}: kept, now of class ${className}` },
    ]
  })
}

function nothingToMigrate(config: ConfigFile): Problem {
  const message =
    'there is no container or binding with the class_name "Sandbox" at the top level: nothing to migrate'
  return {
    severity: 'error',
    code: 'no-old-pattern',
    message,
    place: { file: config.file },
    fix: 'run `sync` instead',
  }
}
