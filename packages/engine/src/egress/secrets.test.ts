import { expect, it } from 'vitest'
import { valuesOf } from './secrets.ts'

const context = { sandboxId: 's', labels: { project: 'p' } }

it('takes values from an object or a function, and omits what has none', async () => {
  const object = { github: 'abc', other: 'x' }
  expect(await valuesOf(object, ['github', 'missing', 'toString'], context)).toEqual({ github: 'abc' })
  const asked: unknown[] = []
  const source = async (name: string, about: unknown) => {
    asked.push([name, about])
    return name === 'github' ? 'abc' : undefined
  }
  expect(await valuesOf(source, ['github', 'missing'], context)).toEqual({ github: 'abc' })
  expect(asked).toEqual([
    ['github', context],
    ['missing', context],
  ])
})

it.each([['line\nbreak'], ['ü'], [''], ['x'.repeat(20_000)], [7 as unknown as string]])(
  'refuses a value that cannot be a header, without showing it',
  async (value) => {
    const error = await valuesOf({ github: value }, ['github'], context).catch((error) => error)
    expect(error).toMatchObject({ code: 'invalid_argument', message: expect.stringContaining('github') })
    if (String(value).length > 3) expect(`${error.message}${error.hint}`).not.toContain(value)
  },
)
