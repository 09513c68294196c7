/**
 * Durable Object migrations are a history of which Cloudflare has applied an unknown part. So it is only appended to.
 * Folding every step in order, as Cloudflare does, yields the existing classes.
 */
import type { Problem } from '../problem.ts'
import { isObject, type Json, type JsonObject } from './edits.ts'
import { nextTag } from './tags.ts'

export interface LiveClass {
  sqlite: boolean
  tag: string
}

export interface Rename {
  from: string
  to: string
}

export interface MigrationNeeds {
  classes: string[]
  renames: Rename[]
  deletes: string[]
  today: string
}

/** The classes that exist after all migrations, whatever step created them. */
export function foldMigrations(migrations: readonly Json[]): Map<string, LiveClass> {
  const live = new Map<string, LiveClass>()
  for (const migration of migrations) {
    if (!isObject(migration)) continue
    const tag = String(migration.tag)
    for (const name of strings(migration.deleted_classes)) live.delete(name)
    for (const { from, to } of pairs(migration.renamed_classes)) {
      const before = live.get(from)
      live.delete(from)
      live.set(to, { sqlite: before?.sqlite ?? true, tag })
    }
    for (const name of strings(migration.new_classes)) live.set(name, { sqlite: false, tag })
    for (const name of strings(migration.new_sqlite_classes)) live.set(name, { sqlite: true, tag })
    for (const { to } of pairs(migration.transferred_classes)) live.set(to, { sqlite: true, tag })
  }
  return live
}

/** The migrations to append, usually none or one. Chained renames (A → B while B → C) get one each, in order. */
export function planMigrations(migrations: readonly Json[], needs: MigrationNeeds): JsonObject[] {
  const live = foldMigrations(migrations)
  const tags = migrations.map((migration) => (isObject(migration) ? String(migration.tag) : ''))
  const added: JsonObject[] = []
  const add = (steps: JsonObject, slug: string) => {
    const tag = nextTag(tags, needs.today, slug)
    tags.push(tag)
    added.push({ tag, ...steps })
  }
  const renames = needs.renames.filter(
    ({ from, to }) => live.has(from) && !isBlocked(to, live, needs.renames),
  )
  for (const { from } of renames) live.delete(from)
  for (const { to } of renames) live.set(to, { sqlite: true, tag: '' })
  const created = [...new Set(needs.classes)].filter((name) => !live.has(name))
  const deleted = needs.deletes.filter((name) => live.has(name))

  const froms = new Set(renames.map(({ from }) => from))
  const chained = renames.some(({ to }) => froms.has(to))
  if (chained)
    for (const rename of freeNamesFirst(renames)) add({ renamed_classes: [{ ...rename }] }, kebab(rename.to))
  const steps: JsonObject = {}
  if (deleted.length > 0) steps.deleted_classes = deleted
  if (renames.length > 0 && !chained) steps.renamed_classes = renames.map((rename) => ({ ...rename }))
  if (created.length > 0) steps.new_sqlite_classes = created
  const subject = created[0] ?? renames[0]?.to ?? deleted[0]
  if (Object.keys(steps).length > 0) add(steps, kebab(subject ?? 'sandbox'))
  return added
}

/** Duplicate tags: after a merge of two branches, Cloudflare would skip the second. */
export function repeatedTags(migrations: readonly Json[]): { tag: string; first: number; second: number }[] {
  const seen = new Map<string, number>()
  const repeated: { tag: string; first: number; second: number }[] = []
  for (const [index, migration] of migrations.entries()) {
    if (!isObject(migration) || typeof migration.tag !== 'string') continue
    const first = seen.get(migration.tag)
    if (first !== undefined) repeated.push({ tag: migration.tag, first, second: index })
    else seen.set(migration.tag, index)
  }
  return repeated
}

/** Sandboxes need SQLite-backed classes; the storage of an existing class cannot be changed. */
export function storageProblems(live: Map<string, LiveClass>, classes: string[]): Problem[] {
  return classes
    .filter((name) => live.get(name)?.sqlite === false)
    .map((name) => ({
      severity: 'warning',
      code: 'not-sqlite',
      message: `migration ${live.get(name)?.tag} created ${name} with new_classes; containers need a SQLite-backed class`,
      fix: `give the class another name (it is then created with new_sqlite_classes) and delete ${name} later`,
    }))
}

function isBlocked(to: string, live: Map<string, LiveClass>, renames: Rename[]): boolean {
  return live.has(to) && !renames.some(({ from }) => from === to)
}

function freeNamesFirst(renames: Rename[]): Rename[] {
  const left = [...renames]
  const ordered: Rename[] = []
  while (left.length > 0) {
    const next = left.findIndex(({ to }) => !left.some(({ from }) => from === to))
    // A ring of renames has no free name; such sources keep their classes and never get here.
    ordered.push(...left.splice(next === -1 ? 0 : next, 1))
  }
  return ordered
}

function strings(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function pairs(value: Json | undefined): Rename[] {
  if (!Array.isArray(value)) return []
  return value.filter(isObject).map(({ from, to }) => ({ from: String(from), to: String(to) }))
}

export function kebab(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])/g, '$1-$2').toLowerCase()
}
