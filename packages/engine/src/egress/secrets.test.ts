import { expect, it } from 'vitest'
import { checkSource, usableValues, valuesOf } from './secrets.ts'

const context = { sandboxId: 's', labels: { project: 'p' } }

it('takes values from an object or a function, and omits what has none', async () => {
  const object = { github: 'abc-def', other: 'x' }
  expect(await valuesOf(object, ['github', 'missing', 'toString'], context)).toEqual({ github: 'abc-def' })
  const asked: unknown[] = []
  const source = async (name: string, about: unknown) => {
    asked.push([name, about])
    return name === 'github' ? 'abc-def' : undefined
  }
  expect(await valuesOf(source, ['github', 'missing'], context)).toEqual({ github: 'abc-def' })
  expect(asked).toEqual([
    ['github', context],
    ['missing', context],
  ])
})

it.each([
  ['line\nbreak'],
  ['ü'],
  [''],
  ['5byte'],
  ['a tab\tin it'],
  ['x'.repeat(4_097)],
  [7 as unknown as string],
])('refuses a value that cannot be a header, without showing it', async (value) => {
  const error = await valuesOf({ github: value }, ['github'], context).catch((error) => error)
  expect(['invalid_argument', 'too_large']).toContain(error.code)
  expect(error.message).toContain('github')
  if (String(value).length > 3) expect(`${error.message}${error.hint}`).not.toContain(value)
  // Before any sandbox needs it.
  expect(() => checkSource({ github: value })).toThrow('github')
})

it('leaves out what cannot be used, so that an earlier value does not stay', async () => {
  const { values, problems } = await usableValues({ a: 'short', b: 'long-enough' }, ['a', 'b'], context)
  expect(values).toEqual({ b: 'long-enough' })
  expect(problems).toMatchObject([{ code: 'invalid_argument' }])
})

it('limits the number and the size of the secrets of one policy', async () => {
  const names = Array.from({ length: 65 }, (_, at) => `s${at}`)
  const small = Object.fromEntries(names.map((name) => [name, 'abcdef']))
  await expect(valuesOf(small, names, context)).rejects.toMatchObject({ code: 'too_large' })
  await expect(valuesOf(small, names.slice(1), context)).resolves.toHaveProperty('s1')
  const large = Object.fromEntries(names.map((name) => [name, 'x'.repeat(4_096)]))
  await expect(valuesOf(large, names.slice(0, 17), context)).rejects.toMatchObject({ code: 'too_large' })
})
