/** Adding entries to a one-line list puts each entry on its own line. */
import { expect, test } from 'vitest'
import type { Edit } from '../plan/edits.ts'
import { applyEdits } from './apply.ts'

const binding = (name: string) => ({ name, class_name: name })
const append = (...names: string[]): Edit => ({
  op: 'append',
  path: ['durable_objects', 'bindings'],
  values: names.map(binding),
  layout: 'inline',
  why: '',
})

test('bindings', () => {
  const before = `{
  "name": "desk",
  "durable_objects": { "bindings": [{ "name": "A", "class_name": "A" }, { "name": "B", "class_name": "B" }] } // ours
}
`
  expect(applyEdits(before, [append('C', 'D')], 'w')).toBe(`{
  "name": "desk",
  "durable_objects": {
    "bindings": [
      { "name": "A", "class_name": "A" },
      { "name": "B", "class_name": "B" },
      { "name": "C", "class_name": "C" },
      { "name": "D", "class_name": "D" }
    ]
  } // ours
}
`)
})

test('tabs, CRLF and a trailing comma are kept', () => {
  const before = '{\r\n\t"durable_objects": {\r\n\t\t"bindings": [{ "name": "A" },]\r\n\t}\r\n}\r\n'
  expect(applyEdits(before, [append('B')], 'w')).toBe(
    '{\r\n\t"durable_objects": {\r\n\t\t"bindings": [\r\n\t\t\t{ "name": "A" },\r\n\t\t\t{ "name": "B", "class_name": "B" },\r\n\t\t]\r\n\t}\r\n}\r\n',
  )
})

test('a list with a comment and a one-line document keep their layout', () => {
  const comment = '{\n  "durable_objects": {\n    "bindings": [/* first */ { "name": "A" }]\n  }\n}\n'
  expect(applyEdits(comment, [append('B')], 'w')).toContain('[/* first */ { "name": "A" }, { "name": "B"')
  const flat = '{ "durable_objects": { "bindings": [{ "name": "A" }] } }'
  expect(applyEdits(flat, [append('B')], 'w')).not.toContain('\n')
})
