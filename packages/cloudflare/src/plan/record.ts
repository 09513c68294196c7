/**
 * Stores which entries of the wrangler config are ours, in `wrangler.sandboxes.json` beside it, to be committed. It
 * answers three questions: may this entry be removed, now that its file is gone (only if ours); was this class
 * renamed, or is it new (the file's earlier class); and which environments were selected.
 *
 * Rejected:
 * - marker comments in the config: formatters and people move them, and plain JSON has no comments
 * - a key of our own in the config: wrangler warns about unknown keys
 * - guessing by names: would delete hand-written entries
 */

/** The fields of a container that the source decides. Other fields belong to the user. */
export type ContainerField = 'name' | 'image' | 'instance_type' | 'max_instances'

export interface RecordedSandbox {
  class: string
  binding: string
  container: string
  /** Fields that we wrote. A `max_instances` that is missing here was added by hand and stays. */
  fields: ContainerField[]
  /** The named environments with entries of ours. */
  envs?: string[]
}

export interface ManagedRecord {
  version: 1
  envs: string[]
  /** Keyed by the file's path relative to the config's folder. */
  sandboxes: { [file: string]: RecordedSandbox }
  /** Arrays and objects of the config that we created, such as `containers`. */
  created: string[]
  /** Classes without a file that still exist in Cloudflare. */
  retired: string[]
}

export const RECORD_NOTE =
  'Which entries of the wrangler config beside this file belong to *.sandbox.ts files. Written by sandkasten; commit it.'

export function emptyRecord(): ManagedRecord {
  return { version: 1, envs: [], sandboxes: {}, created: [], retired: [] }
}

/** Throws an Error with the reason if this version cannot read the record. */
export function parseRecord(text: string): ManagedRecord {
  const value = JSON.parse(text) as Partial<ManagedRecord> | null
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('it is not an object')
  if (value.version !== 1)
    throw new Error(`its version is ${JSON.stringify(value.version)}; this release supports version 1`)
  const strings = (list: unknown): string[] => {
    if (list === undefined) return []
    if (Array.isArray(list) && list.every((item) => typeof item === 'string')) return list
    throw new Error('a list in it contains a value that is not a string')
  }
  for (const [file, entry] of Object.entries(value.sandboxes ?? {})) {
    const texts = [entry?.class, entry?.binding, entry?.container]
    if (texts.some((text) => typeof text !== 'string')) throw new Error(`the entry of ${file} is incomplete`)
    strings(entry.fields)
    strings(entry.envs)
  }
  return {
    version: 1,
    envs: strings(value.envs),
    sandboxes: value.sandboxes ?? {},
    created: strings(value.created),
    retired: strings(value.retired),
  }
}

/** Sorted and stable, so that branches merge and an unchanged project gives the same bytes. */
export function formatRecord(record: ManagedRecord): string {
  const files = Object.keys(record.sandboxes).sort()
  const sorted = {
    '//': RECORD_NOTE,
    version: record.version,
    envs: [...record.envs].sort(),
    sandboxes: Object.fromEntries(files.map((file) => [file, record.sandboxes[file]])),
    created: [...record.created].sort(),
    retired: [...record.retired].sort(),
  }
  return `${JSON.stringify(sorted, null, 2)}\n`
}

export function isEmptyRecord({ envs, sandboxes, created, retired }: ManagedRecord): boolean {
  return Object.keys(sandboxes).length + envs.length + created.length + retired.length === 0
}
