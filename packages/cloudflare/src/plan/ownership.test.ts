/** K3: our entries are removed with their file; hand-written entries are kept and never overwritten. */
import { describe, expect, test } from 'vitest'
import { problemsOf, project, SHELL, sandbox } from '../../test/project.ts'
import { check, sync } from '../sync.ts'

const FILE = 'src/server/shell.sandbox.ts'
const RECORD = 'wrangler.sandboxes.json'

describe('K3: removal', () => {
  test('the last file removes its entries and the record; neighbours stay', async () => {
    const config = `{
  "containers": [
    { "name": "web", "class_name": "Web", "image": "w:1" }
  ],
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Web", "ShellSandbox"] }]
}
`
    const { root, read, remove, has } = project({ [FILE]: SHELL, 'wrangler.jsonc': config })
    await sync({ root })
    expect(has(RECORD)).toBe(true)
    remove(FILE)
    const result = await sync({ root })
    expect(read('wrangler.jsonc')).toBe(config)
    expect(result.problems).toMatchObject([{ code: 'retired-class' }])
    expect(JSON.parse(read(RECORD))).toMatchObject({ sandboxes: {}, created: [], retired: ['ShellSandbox'] })
  })

  test('comments beside a removed entry stay; additions inside it are removed', async () => {
    const { root, read, write, remove } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}\n' })
    await sync({ root })
    const edited = read('wrangler.jsonc')
      .replace(
        '\t\t{\n\t\t\t"name"',
        '\t\t// the support shell\n\t\t{\n\t\t\t"image_vars": { "A": "1" },\n\t\t\t"name"',
      )
      .replace('}]', '}] // one')
    write({ 'wrangler.jsonc': edited, 'src/server/b.sandbox.ts': sandbox('B') })
    await sync({ root })
    expect(read('wrangler.jsonc')).toContain('"image_vars": { "A": "1" }')
    remove(FILE)
    await sync({ root })
    const text = read('wrangler.jsonc')
    expect(text).toContain('// the support shell')
    expect(text).toContain('// one')
    expect(text).not.toContain('image_vars')
    expect(text).not.toContain('SHELL_SANDBOX')
  })

  test('a binding that the user pointed at another class is no longer ours', async () => {
    const { root, read, write, remove } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}\n' })
    await sync({ root })
    const mine = '"name": "SHELL_SANDBOX", "class_name": "Mine"'
    write({
      'wrangler.jsonc': read('wrangler.jsonc').replace(
        '"name": "SHELL_SANDBOX", "class_name": "ShellSandbox"',
        mine,
      ),
    })
    remove(FILE)
    await sync({ root })
    expect(read('wrangler.jsonc')).toContain(mine)
  })
})

describe('hand-written entries', () => {
  const tuned = `{
  "containers": [{ "name": "shell-sandbox", "class_name": "ShellSandbox", "image": "mine:1", "instance_type": "basic", "image_vars": {} }]
}
`
  test('are rejected if they differ, with the difference and the solution', async () => {
    const { root, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': tuned })
    const [problem] = await problemsOf(sync({ root }))
    expect(problem).toMatchObject({
      code: 'hand-written',
      place: { file: 'wrangler.jsonc', line: 2, column: 18 },
    })
    expect(problem?.message).toContain('instance_type "basic" ≠ "lite"')
    expect(problem?.fix).toContain('--adopt')
    expect(read('wrangler.jsonc')).toBe(tuned)
  })

  test('are taken over with adopt: our fields change in place, others stay', async () => {
    const { root, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': tuned })
    await sync({ root, adopt: true })
    const wanted = tuned.replace('mine:1', 'docker.io/cloudflare/sandbox:0.8.11').replace('"basic"', '"lite"')
    expect(read('wrangler.jsonc')).toContain(wanted.split('\n')[1])
  })

  test('are recognised if they equal ours, so a lost record is restored', async () => {
    const { root, read, remove } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}\n' })
    await sync({ root })
    const [config, record] = [read('wrangler.jsonc'), read(RECORD)]
    remove(RECORD)
    expect((await check({ root })).changed).toBe(true)
    await sync({ root })
    expect(read('wrangler.jsonc')).toBe(config)
    expect({ ...JSON.parse(read(RECORD)), created: 0 }).toEqual({ ...JSON.parse(record), created: 0 })
  })
})

test('accepts a record that was reformatted', async () => {
  const { root, read, write } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}\n' })
  await sync({ root })
  const flat = JSON.stringify(JSON.parse(read(RECORD)))
  write({ [RECORD]: flat })
  expect((await check({ root })).changed).toBe(false)
  await sync({ root })
  expect(read(RECORD)).toBe(flat)
})

test('the source decides the managed fields, and max_instances only if it sets it', async () => {
  const { root, read, write } = project({
    [FILE]: sandbox('ShellSandbox', 'static maxInstances = 3'),
    'wrangler.jsonc': '{}\n',
  })
  const container = () => JSON.parse(read('wrangler.jsonc')).containers[0]
  await sync({ root })
  write({ 'wrangler.jsonc': read('wrangler.jsonc').replace('"lite"', '"basic"').replace('3', '4') })
  await sync({ root })
  expect(container()).toMatchObject({ instance_type: 'lite', max_instances: 3 })
  write({ [FILE]: SHELL })
  await sync({ root })
  expect(container()).not.toHaveProperty('max_instances')
  write({ 'wrangler.jsonc': read('wrangler.jsonc').replace('"lite"', '"lite",\n\t\t\t"max_instances": 7') })
  expect((await sync({ root })).written).toBe(false)
  expect(container()).toMatchObject({ max_instances: 7 })
})

test.each([
  ['not JSON', '{', /record cannot be read/],
  ['of another version', '{"version":2}', /version is 2/],
  ['incomplete', '{"version":1,"sandboxes":{"a":{"class":"A"}}}', /entry of a is incomplete/],
])('rejects a record that is %s', async (_, record, message) => {
  const { root, read } = project({ [FILE]: SHELL, 'wrangler.jsonc': '{}', [RECORD]: record })
  const [problem] = await problemsOf(sync({ root }))
  expect(problem).toMatchObject({ code: 'broken-record', place: { file: RECORD } })
  expect(problem?.message).toMatch(message)
  expect(read('wrangler.jsonc')).toBe('{}')
})
