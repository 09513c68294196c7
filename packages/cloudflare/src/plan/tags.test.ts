/** K15: new tags follow the style of the file and are never reused. */
import { expect, test } from 'vitest'
import { problemsOf, project, SHELL } from '../../test/project.ts'
import { sync } from '../sync.ts'
import { nextTag } from './tags.ts'

test.each([
  [[], 'v1'],
  [['v1'], 'v2'],
  [['v1', 'v2', 'v12'], 'v13'],
  [['v3', 'v1'], 'v4'],
  [['v001', 'v002'], 'v003'],
  [['v9'], 'v10'],
  [['1', '2'], '3'],
  [['migration-4'], 'migration-5'],
  [['v1.2'], 'v1.3'],
  [['2024-01-01'], '2026-03-04'],
  [['2024-01-01', '2026-03-04'], '2026-03-04-2'],
  [['2026-03-04', '2026-03-04-2'], '2026-03-04-3'],
  [['20240101'], '20260304'],
  [['0001_init', '0002_add_rooms'], '0003_x'],
  [['v2-rooms'], 'v3-x'],
  [['init'], 'v1'],
  [['v1', 'add-rooms'], 'v2'],
  [['2024-01-01', 'v1'], 'v2'],
  [['a+(b)1'], 'a+(b)2'],
  [['99999999999999999999'], '00000000000000000001'],
])('after %j comes %s', (existing, expected) => {
  expect(nextTag(existing, '2026-03-04', 'x')).toBe(expected)
})

test('rejects a duplicate tag after a merge, with both lines', async () => {
  const config =
    '{\n"migrations": [\n{ "tag": "v1", "new_sqlite_classes": ["A"] },\n{ "tag": "v1", "new_sqlite_classes": ["B"] }\n]\n}'
  const { root, read } = project({ 'src/server/shell.sandbox.ts': SHELL, 'wrangler.jsonc': config })
  const [problem] = await problemsOf(sync({ root }))
  expect(problem).toMatchObject({ code: 'repeated-tag', place: { line: 4 } })
  expect(problem?.message).toContain('line 3')
  expect(read('wrangler.jsonc')).toBe(config)
})
