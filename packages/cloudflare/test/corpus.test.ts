/** K1: for every style of config, sync is idempotent, only adds, and can be undone byte for byte. */
import { parse } from 'jsonc-parser'
import { describe, expect, test } from 'vitest'
import { applyEdits } from '../src/apply/apply.ts'
import type { Edit, JsonObject } from '../src/plan/edits.ts'
import { check, sync } from '../src/sync.ts'
import { BROKEN, CORPUS } from './corpus.ts'
import { problemsOf, project, SHELL } from './project.ts'

const TODAY = '2026-03-04'
const FILE = 'src/server/shell.sandbox.ts'

describe.each(CORPUS)('$name', ({ text: before, tag }) => {
  test('K1: sync twice equals sync once, keeps every byte in order, and adds only our entries', async () => {
    const { root, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': before })
    const first = await sync({ root, today: TODAY })
    expect(first.written).toBe(true)
    const after = read('wrangler.jsonc')
    const second = await sync({ root, today: '2027-12-31' })
    expect(second.written).toBe(false)
    expect(read('wrangler.jsonc')).toBe(after)

    expect(isSubsequence(before, after)).toBe(true)
    expect(withoutOurs(value(after))).toEqual(withoutOurs(value(before)))
    expect(value(after).containers).toContainEqual({
      name: 'shell-sandbox',
      class_name: 'ShellSandbox',
      image: 'docker.io/cloudflare/sandbox:0.8.11',
      instance_type: 'lite',
    })
    expect(value(after).durable_objects.bindings).toContainEqual({
      name: 'SHELL_SANDBOX',
      class_name: 'ShellSandbox',
    })
    const added = value(after).migrations.slice((value(before).migrations ?? []).length)
    expect(added).toEqual(tag === undefined ? [] : [{ tag, new_sqlite_classes: ['ShellSandbox'] }])
    const crlf = before.includes('\r\n')
    expect(after.replaceAll('\r\n', '').includes(crlf ? '\n' : '\r')).toBe(false)
  })

  test('removing the file and the migration restores the original bytes', async () => {
    const { root, read, remove } = project({ [FILE]: SHELL, 'wrangler.jsonc': before })
    await sync({ root, today: TODAY })
    remove(FILE)
    await sync({ root, today: TODAY })
    const undo: Edit[] = []
    if (tag !== undefined) {
      undo.push({ op: 'remove', path: ['migrations', (value(before).migrations ?? []).length], why: '' })
      if (!value(before).migrations) undo.push({ op: 'prune', path: ['migrations'], why: '' })
    }
    const undone = applyEdits(read('wrangler.jsonc'), undo, 'wrangler.jsonc')
    // A file without an object gets one, which is not removed again.
    const expected = value(before) && before.includes('{') ? before : `${before}{}\n`
    expect(oneLineLists(blankEmpties(undone))).toBe(oneLineLists(blankEmpties(expected)))
    expect((await sync({ root, today: TODAY })).written).toBe(false)
  })

  test('check shows the difference and writes nothing', async () => {
    const { root, read, has } = project({ [FILE]: SHELL, 'wrangler.jsonc': before })
    const result = await check({ root, today: TODAY })
    expect(result.changed).toBe(true)
    expect(result.diff).toContain('SHELL_SANDBOX')
    expect(read('wrangler.jsonc')).toBe(before)
    expect(has('wrangler.sandboxes.json')).toBe(false)
  })
})

describe.each(BROKEN)('refused: $name', ({ text, line, column }) => {
  test('is unchanged, and the error has the position (K2)', async () => {
    const { root, read, has } = project({ [FILE]: SHELL, 'wrangler.jsonc': text })
    const [problem] = await problemsOf(sync({ root }))
    expect(problem?.place).toEqual({ file: 'wrangler.jsonc', line, column })
    expect(problem?.fix).toBeTruthy()
    expect(read('wrangler.jsonc')).toBe(text)
    expect(has('wrangler.sandboxes.json')).toBe(false)
  })
})

function value(text: string) {
  return parse(text.replace(/^\ufeff/, ''), [], { allowTrailingComma: true }) ?? {}
}

/** The config without the entries of ShellSandbox, and without arrays that are then empty. */
function withoutOurs(config: JsonObject) {
  const copy = structuredClone(config) as ReturnType<typeof value>
  const others = (list: { class_name: string }[] = []) =>
    list.filter(({ class_name }) => class_name !== 'ShellSandbox')
  const history = (list: { new_sqlite_classes?: string[] }[] = []) =>
    list.filter(({ new_sqlite_classes }) => new_sqlite_classes?.[0] !== 'ShellSandbox')
  return {
    ...copy,
    containers: others(copy.containers),
    durable_objects: { ...copy.durable_objects, bindings: others(copy.durable_objects?.bindings) },
    migrations: history(copy.migrations),
  }
}

function isSubsequence(inner: string, outer: string): boolean {
  let at = 0
  for (const char of outer) if (char === inner[at]) at++
  return at === [...inner].length
}

/** Normalizes one-line lists of objects, which get one line per entry and keep them. */
function oneLineLists(text: string): string {
  return text
    .replace(/\[\s*\{/g, '[{')
    .replace(/\},\s*\{/g, '}, {')
    .replace(/\}(,?)\s*\]/g, '}$1]')
    .replace(/\{\s*("bindings")/g, '{ $1')
    .replace(/\](,?)\s*\}/g, ']$1 }')
}

function blankEmpties(text: string): string {
  return text.replace(/([[{])\s+([\]}])/g, '$1$2')
}
