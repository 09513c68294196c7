import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Document, parseDocument, whereIn } from './apply/document.ts'
import { parseToml } from './apply/toml.ts'
import { readIfThere } from './apply/write.ts'
import { posixRelative } from './paths.ts'
import type { JsonObject } from './plan/edits.ts'
import { emptyRecord, type ManagedRecord, parseRecord } from './plan/record.ts'
import type { Where } from './plan/section.ts'
import { CloudflareSyncError, type Problem } from './problem.ts'

export interface ConfigFile {
  path: string
  dir: string
  file: string
  format: 'jsonc' | 'toml'
  text: string
  value: JsonObject
  where: Where
  record: ManagedRecord
  recordPath: string
  recordFile: string
  recordText: string | undefined
}

/** The order in which wrangler looks; it deploys the first one. */
const NAMES = ['wrangler.json', 'wrangler.jsonc', 'wrangler.toml']

/** The config's path, or undefined if the project has none. A requested path must exist. */
export function findConfig(root: string, asked: string | undefined): { path?: string; problems: Problem[] } {
  if (asked !== undefined) {
    const path = resolve(root, asked)
    if (existsSync(path)) return { path, problems: [] }
    throw new CloudflareSyncError([missingConfig(posixRelative(root, path))])
  }
  const [first, ...others] = NAMES.map((name) => join(root, name)).filter((path) => existsSync(path))
  if (!first) return { problems: [] }
  const problems = others.map((other): Problem => {
    const place = { file: posixRelative(root, other) }
    const message = `wrangler reads ${posixRelative(root, first)} and ignores this file`
    return { severity: 'warning', code: 'two-configs', message, place, fix: 'remove one of them' }
  })
  return { path: first, problems }
}

export function missingConfig(file: string): Problem {
  const minimal = '{ "name": "my-worker", "main": "src/index.ts", "compatibility_date": "2026-01-01" }'
  const fix = `create it, for example:\n${minimal}`
  return {
    severity: 'error',
    code: 'no-config',
    message: 'there is no such wrangler config',
    place: { file },
    fix,
  }
}

export function readConfig(path: string, root: string): ConfigFile {
  const file = posixRelative(root, path)
  const text = readIfThere(path)
  if (text === undefined) throw new CloudflareSyncError([missingConfig(file)])
  const recordPath = path.replace(/(\.jsonc?|\.toml)?$/, '.sandboxes.json')
  const recordFile = posixRelative(root, recordPath)
  const recordText = readIfThere(recordPath)
  const record = recordText === undefined ? emptyRecord() : readRecord(recordText, recordFile)
  const shared = { path, dir: dirname(path), file, text, record, recordPath, recordFile, recordText }
  if (path.endsWith('.toml'))
    return { ...shared, format: 'toml', value: parseToml(text, file), where: () => ({ file }) }
  const document: Document = parseDocument(text, file)
  return { ...shared, format: 'jsonc', value: document.value, where: (at) => whereIn(document, at) }
}

function readRecord(text: string, file: string): ManagedRecord {
  try {
    return parseRecord(text)
  } catch (error) {
    const message = `the record cannot be read: ${(error as Error).message}`
    const fix =
      'restore it from version control, or delete it: entries that match their files are recognised again, others are then reported as hand-written'
    throw new CloudflareSyncError([
      { severity: 'error', code: 'broken-record', message, place: { file }, fix },
    ])
  }
}
