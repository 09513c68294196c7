import { describe, expect, test } from 'vitest'
import { problemsOf, project, sandbox } from '../../test/project.ts'
import { check, sync } from '../sync.ts'
import { namesOf } from './names.ts'

test.each([
  ['shell', 'SHELL_SANDBOX', 'shell-sandbox'],
  ['python', 'PYTHON_SANDBOX', 'python-sandbox'],
  ['code-interpreter', 'CODE_INTERPRETER_SANDBOX', 'code-interpreter-sandbox'],
  ['snake_case', 'SNAKE_CASE_SANDBOX', 'snake-case-sandbox'],
  ['v2', 'V2_SANDBOX', 'v2-sandbox'],
])('%s.sandbox.ts gives %s and %s', (base, binding, container) => {
  expect(namesOf(base)).toEqual({ binding, container })
})

describe('K12: rejects a file name without a valid binding, with a suggestion', () => {
  test.each([
    ['foo.bar', 'foo-bar'],
    ['my shell', 'my-shell'],
    ['2fast', 'fast'],
    ['größe', 'gro-e'],
    ['straße', 'stra-e'],
    ['日本', 'shell'],
    ['', 'shell'],
    ['a$b', 'a-b'],
  ])('“%s”', async (base, better) => {
    const { root } = project({ [`src/server/${base}.sandbox.ts`]: sandbox('X'), 'wrangler.jsonc': '{}' })
    const [problem] = await problemsOf(check({ root }))
    expect(problem).toMatchObject({ code: 'bad-file-name', place: { file: `src/server/${base}.sandbox.ts` } })
    expect(problem?.fix).toContain(`${better}.sandbox.ts`)
    expect(namesOf(better)?.binding).toMatch(/^[A-Z_][A-Z0-9_]*$/)
  })
})

describe('K11: collisions name both files', () => {
  test.each([
    [
      'one binding',
      { 'a/shell': 'A', 'b/shell': 'B' },
      /a\/shell\.sandbox\.ts:3:22 makes the binding SHELL_SANDBOX/,
    ],
    [
      'one binding, spelt differently',
      { 'code-x': 'A', code_x: 'B' },
      /code-x\.sandbox\.ts:3:22 makes the binding CODE_X_SANDBOX/,
    ],
    ['one class', { a: 'Same', b: 'Same' }, /a\.sandbox\.ts:3:22 makes the class Same/],
  ])('%s', async (_, files, message) => {
    const sources = Object.entries(files).map(([file, name]) => [
      `src/server/${file}.sandbox.ts`,
      sandbox(name),
    ])
    const { root, read } = project({ ...Object.fromEntries(sources), 'wrangler.jsonc': '{}' })
    const [problem, ...more] = await problemsOf(sync({ root }))
    expect(more).toEqual([])
    expect(problem?.message).toMatch(message)
    expect(problem?.place?.file).toBe(sources[1]?.[0])
    expect(read('wrangler.jsonc')).toBe('{}')
  })

  test('with a class that the Worker declares itself', async () => {
    const { root } = project({
      'src/server/shell.sandbox.ts': sandbox('Room'),
      'src/index.ts':
        "import { DurableObject } from 'cloudflare:workers'\nexport class Room extends DurableObject {}\n",
      'wrangler.jsonc': '{ "main": "src/index.ts" }',
    })
    const [problem] = await problemsOf(sync({ root }))
    expect(problem).toMatchObject({ code: 'collision', place: { file: 'src/index.ts', line: 2 } })
    expect(problem?.message).toContain('src/server/shell.sandbox.ts')
  })

  test('with a hand-written binding of the same name', async () => {
    const config =
      '{\n  "durable_objects": { "bindings": [{ "name": "SHELL_SANDBOX", "class_name": "Mine" }] }\n}'
    const { root, read } = project({
      'src/server/shell.sandbox.ts': sandbox('ShellSandbox'),
      'wrangler.jsonc': config,
    })
    const [problem] = await problemsOf(sync({ root }))
    expect(problem).toMatchObject({ code: 'hand-written', place: { file: 'wrangler.jsonc', line: 2 } })
    expect(problem?.message).toContain('src/server/shell.sandbox.ts')
    expect(read('wrangler.jsonc')).toBe(config)
  })

  test('with a hand-written container of the same name', async () => {
    const config = '{ "containers": [{ "name": "shell-sandbox", "class_name": "Mine", "image": "a:1" }] }'
    const { root } = project({
      'src/server/shell.sandbox.ts': sandbox('ShellSandbox'),
      'wrangler.jsonc': config,
    })
    const [problem] = await problemsOf(sync({ root }))
    expect(problem).toMatchObject({ code: 'clash' })
    expect(problem?.fix).toContain('containerName')
  })
})
