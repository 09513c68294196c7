/** K4, K5: classes are created, renamed and deleted; history is only appended to. */
import { describe, expect, test } from 'vitest'
import { problemsOf, project, SHELL, sandbox } from '../../test/project.ts'
import { type SyncOptions, sync } from '../index.ts'

const FILE = 'src/server/shell.sandbox.ts'

function world(config = '{}\n') {
  const made = project({ [FILE]: SHELL, 'wrangler.jsonc': config })
  const run = (options: SyncOptions = {}) => sync({ root: made.root, ...options })
  const value = () => JSON.parse(made.read('wrangler.jsonc'))
  return { ...made, run, value, migrations: () => value().migrations }
}

describe('K4: renames', () => {
  test('same file, new class: renamed_classes, and the entries change in place', async () => {
    const { run, write, value } = world()
    await run()
    write({ [FILE]: sandbox('Terminal') })
    const { problems } = await run()
    expect(value()).toEqual({
      containers: [
        {
          name: 'shell-sandbox',
          class_name: 'Terminal',
          image: 'docker.io/cloudflare/sandbox:0.8.11',
          instance_type: 'lite',
        },
      ],
      durable_objects: { bindings: [{ name: 'SHELL_SANDBOX', class_name: 'Terminal' }] },
      migrations: [
        { tag: 'v1', new_sqlite_classes: ['ShellSandbox'] },
        { tag: 'v2', renamed_classes: [{ from: 'ShellSandbox', to: 'Terminal' }] },
      ],
    })
    expect(problems).toEqual([])
  })

  test('moved file, same class: no migration, the binding changes in place', async () => {
    const { run, write, remove, value } = world()
    await run()
    remove(FILE)
    write({ 'src/server/term.sandbox.ts': SHELL })
    await run()
    expect(value().durable_objects.bindings).toEqual([{ name: 'TERM_SANDBOX', class_name: 'ShellSandbox' }])
    expect(value().containers).toHaveLength(1)
    expect(value().migrations).toHaveLength(1)
  })

  test('new file and new class: only an explicit rename keeps the objects', async () => {
    const { run, write, remove, migrations } = world()
    await run()
    remove(FILE)
    write({ 'src/server/term.sandbox.ts': sandbox('Terminal') })
    await run({ renames: [{ from: 'ShellSandbox', to: 'Terminal' }] })
    expect(migrations().slice(1)).toEqual([
      { tag: 'v2', renamed_classes: [{ from: 'ShellSandbox', to: 'Terminal' }] },
    ])
    expect((await run()).problems).toEqual([])
  })

  test('a chain of explicit renames frees each name before it is used', async () => {
    const { run, write, migrations } = world()
    write({ 'src/server/a.sandbox.ts': sandbox('A'), 'src/server/b.sandbox.ts': sandbox('B') })
    await run()
    write({ 'src/server/a.sandbox.ts': sandbox('B'), 'src/server/b.sandbox.ts': sandbox('C') })
    const renames = [
      { from: 'A', to: 'B' },
      { from: 'B', to: 'C' },
    ]
    expect((await run({ renames })).problems).toEqual([])
    expect(migrations().slice(1)).toEqual([
      { tag: 'v2', renamed_classes: [{ from: 'B', to: 'C' }] },
      { tag: 'v3', renamed_classes: [{ from: 'A', to: 'B' }] },
    ])
  })

  test('two files that swap their classes need no migration, and the objects’ owner is reported', async () => {
    const { run, write, migrations, value } = world()
    write({ 'src/server/a.sandbox.ts': sandbox('A'), 'src/server/b.sandbox.ts': sandbox('B') })
    await run()
    write({ 'src/server/a.sandbox.ts': sandbox('B'), 'src/server/b.sandbox.ts': sandbox('A') })
    expect((await run()).problems.map(({ code }) => code)).toEqual(['class-moved', 'class-moved'])
    expect(migrations()).toHaveLength(1)
    expect(value().durable_objects.bindings).toContainEqual({ name: 'A_SANDBOX', class_name: 'B' })
  })
})

describe('K4: deletion', () => {
  test('never automatic: the class is retired, and every sync reports it until it is resolved', async () => {
    const { run, remove, migrations } = world()
    await run()
    remove(FILE)
    for (const _ of [1, 2])
      expect((await run()).problems).toMatchObject([{ code: 'retired-class', severity: 'warning' }])
    expect(migrations()).toHaveLength(1)
    expect((await run({ deleteClasses: ['ShellSandbox'] })).problems).toEqual([])
    expect(migrations().slice(1)).toEqual([{ tag: 'v2', deleted_classes: ['ShellSandbox'] }])
    expect((await run()).problems).toEqual([])
  })

  test('a retired class that returns needs no second migration', async () => {
    const { run, remove, write, migrations } = world()
    await run()
    remove(FILE)
    await run()
    write({ [FILE]: SHELL })
    expect((await run()).problems).toEqual([])
    expect(migrations()).toHaveLength(1)
  })

  test.each([
    [
      'a class that a file declares',
      { deleteClasses: ['ShellSandbox'] },
      /still the class of src\/server\/shell/,
    ],
    ['an unknown class', { deleteClasses: ['Shel'] }, /no migration made a class Shel/],
    [
      'a rename to a class without a file',
      { renames: [{ from: 'ShellSandbox', to: 'X' }] },
      /no sandbox file has a class X/,
    ],
  ])('refused: %s', async (_, options, message) => {
    const { run, read } = world()
    await run()
    const before = read('wrangler.jsonc')
    const [problem] = await problemsOf(run(options))
    expect(problem?.message).toMatch(message)
    expect(read('wrangler.jsonc')).toBe(before)
  })
})

describe('K5: a class is not created again, whatever step created it', () => {
  test.each([
    ['new_sqlite_classes', [{ tag: 'v1', new_sqlite_classes: ['ShellSandbox'] }], 0],
    ['new_classes', [{ tag: 'v1', new_classes: ['ShellSandbox'] }], 0],
    [
      'renamed_classes',
      [
        { tag: 'v1', new_sqlite_classes: ['A'] },
        { tag: 'v2', renamed_classes: [{ from: 'A', to: 'ShellSandbox' }] },
      ],
      0,
    ],
    [
      'transferred_classes',
      [{ tag: 'v1', transferred_classes: [{ from: 'A', from_script: 's', to: 'ShellSandbox' }] }],
      0,
    ],
    [
      'but deleted since',
      [
        { tag: 'v1', new_sqlite_classes: ['ShellSandbox'] },
        { tag: 'v2', deleted_classes: ['ShellSandbox'] },
      ],
      1,
    ],
    [
      'but renamed away since',
      [
        { tag: 'v1', new_sqlite_classes: ['ShellSandbox'] },
        { tag: 'v2', renamed_classes: [{ from: 'ShellSandbox', to: 'B' }] },
      ],
      1,
    ],
  ])('%s', async (kind, history, added) => {
    const { run, migrations } = world(JSON.stringify({ migrations: history }))
    const { problems } = await run()
    expect(migrations()).toHaveLength(history.length + added)
    expect(migrations().slice(0, history.length)).toEqual(history)
    expect(problems.map(({ code }) => code)).toEqual(kind === 'new_classes' ? ['not-sqlite'] : [])
  })

  test('recognises wrangler’s newer "exports"; reports a class that is missing there, and adds no migration', async () => {
    const room = { Room: { type: 'durable-object', storage: 'sqlite' } }
    const missing = world(JSON.stringify({ exports: room }))
    const [problem] = await problemsOf(missing.run())
    expect(problem).toMatchObject({ code: 'uses-exports' })
    expect(problem?.fix).toContain('"ShellSandbox": { "type": "durable-object", "storage": "sqlite" }')
    const there = world(JSON.stringify({ exports: { ...room, ShellSandbox: room.Room } }))
    await there.run()
    expect(there.value()).not.toHaveProperty('migrations')
    expect(there.value().containers).toHaveLength(1)
  })
})
