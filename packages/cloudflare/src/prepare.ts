/**
 * Runs the stages up to the point before writing. `sync`, `check` and `migrate` share it, so a check shows exactly
 * what a sync does.
 */
import { existsSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { applyEdits } from './apply/apply.ts'
import { unifiedDiff } from './apply/diff.ts'
import { tomlInstructions } from './apply/toml.ts'
import { replaceFile } from './apply/write.ts'
import { type ConfigFile, findConfig, missingConfig, readConfig } from './config-file.ts'
import { type Discovery, discover } from './discover/discover.ts'
import { entryProblems } from './entry.ts'
import { proxyProblems } from './migrate/call-sites.ts'
import { posixRelative } from './paths.ts'
import { type Edit, inSafeOrder } from './plan/edits.ts'
import type { EnvSelection } from './plan/environments.ts'
import type { Rename } from './plan/migrations.ts'
import { type PlannedSandbox, plan } from './plan/plan.ts'
import { formatRecord, isEmptyRecord, parseRecord } from './plan/record.ts'
import { CloudflareSyncError, type Problem, throwIfErrors } from './problem.ts'

export interface SyncOptions {
  /** The project's folder. Default: the current one. */
  root?: string
  /** The folder of `*.sandbox.ts` files, relative to `root`. Default: `src/server`. */
  dir?: string
  /** The wrangler config, relative to `root`. Default: as wrangler finds it. */
  config?: string
  /** Named environments to update. Default: as recorded. */
  envs?: EnvSelection
  /** Take over hand-written entries of our classes. */
  adopt?: boolean
  /** Delete these classes, with their objects and data, at the next deploy. */
  deleteClasses?: string[]
  /** Explicit renames, for classes whose file was renamed too. */
  renames?: Rename[]
  /** Search the project's sources for calls that use `env.Sandbox`. Default: true. */
  callSites?: boolean
  /** `2026-01-31`, for configs whose tags are dates. */
  today?: string
}

export interface SyncResult {
  /** Undefined if the project has neither sandbox files nor a config. */
  configFile: string | undefined
  sandboxes: PlannedSandbox[]
  edits: Edit[]
  changed: boolean
  written: boolean
  diff: string
  /** For TOML: instructions for manual edits. */
  instructions: string
  problems: Problem[]
  /** Absolute paths that the result depends on. */
  readFrom: string[]
}

export interface Prepared extends SyncResult {
  config?: ConfigFile
  after: string
  recordAfter: string | undefined
  recordChanged: boolean
}

/** Lets `migrate` change the input before planning. May return edits of its own. */
export type Adjust = (config: ConfigFile, discovery: Discovery) => Edit[]

/** Everything except writing. Throws if there is an error. */
export function prepare(options: SyncOptions, adjust?: Adjust): Prepared {
  const root = rootOf(options)
  const { path, problems } = findConfig(root, options.config)
  const config = path === undefined ? undefined : readConfig(path, root)
  if (!adjust) problems.push(...missingFolder(root, options.dir))
  const found = discover({ root, dir: options.dir || undefined, configDir: config?.dir ?? root })
  problems.push(...found.problems)
  if (!config) {
    if (found.sandboxes.length > 0) problems.push(missingConfig('wrangler.jsonc'))
    const nothing = { edits: [], sandboxes: [], changed: false, written: false, diff: '', instructions: '' }
    return {
      ...nothing,
      configFile: undefined,
      problems: throwIfErrors(problems),
      readFrom: [],
      after: '',
      recordAfter: undefined,
      recordChanged: false,
    }
  }
  const extra = adjust?.(config, found) ?? []
  const planned = plan({
    sources: found.sandboxes,
    config: config.value,
    record: config.record,
    configDir: config.dir,
    where: config.where,
    today: options.today ?? new Date().toISOString().slice(0, 10),
    envs: options.envs,
    // A TOML file is edited by the user, so no entry needs protection.
    adopt: options.adopt === true || config.format === 'toml',
    deleteClasses: options.deleteClasses,
    renames: options.renames,
  })
  problems.push(...planned.problems, ...entryProblems(config.value.main, config.dir, root, planned.sandboxes))
  if (options.callSites !== false) problems.push(...proxyProblems(config, root, planned.sandboxes))
  throwIfErrors(problems)
  const edits = inSafeOrder([...extra, ...planned.edits])

  const isToml = config.format === 'toml'
  const after = isToml ? config.text : applyEdits(config.text, edits, config.file)
  const recordAfter = isEmptyRecord(planned.record) ? undefined : formatRecord(planned.record)
  // Compared as data: a formatter may have changed the record's layout.
  const recordBefore =
    config.recordText === undefined ? undefined : formatRecord(parseRecord(config.recordText))
  const recordChanged = recordAfter !== recordBefore
  const recordDiff = unifiedDiff(recordBefore ?? '', recordAfter ?? '', config.recordFile)
  return {
    configFile: config.file,
    sandboxes: planned.sandboxes,
    edits,
    changed: after !== config.text || recordChanged || (isToml && edits.length > 0),
    written: false,
    diff: unifiedDiff(config.text, after, config.file) + recordDiff,
    instructions: isToml ? tomlInstructions(edits, config.value) : '',
    problems,
    readFrom: found.sandboxes.flatMap((source) => source.readFrom),
    config,
    after,
    recordAfter,
    recordChanged,
  }
}

/**
 * Writes config and record. The config first: after a crash in between, the next run recognises entries that match
 * their files.
 */
export function commit({
  config,
  changed,
  after,
  recordAfter,
  recordChanged,
  instructions,
}: Prepared): boolean {
  if (!config || !changed) return false
  if (instructions) {
    const message = 'TOML is read but not written; update it manually'
    throw new CloudflareSyncError([
      { severity: 'error', code: 'toml-by-hand', message, place: { file: config.file }, fix: instructions },
    ])
  }
  if (after !== config.text) replaceFile(config.path, config.text, after, config.file)
  if (!recordChanged) return true
  if (recordAfter === undefined) rmSync(config.recordPath, { force: true })
  else replaceFile(config.recordPath, config.recordText, recordAfter, config.recordFile)
  return true
}

function missingFolder(root: string, dir: string | undefined): Problem[] {
  const problem = (file: string, fix: string): Problem[] => {
    return [{ severity: 'error', code: 'no-dir', message: 'there is no such folder', place: { file }, fix }]
  }
  if (!existsSync(root)) return problem(root, 'correct the path of the project')
  if (dir === undefined || existsSync(resolve(root, dir))) return []
  return problem(posixRelative(root, resolve(root, dir)), 'correct --dir; it is relative to the project')
}

export function rootOf(options: SyncOptions): string {
  return resolve(options.root ?? '.')
}
