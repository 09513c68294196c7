import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { leavesOf } from './environment.ts'
import { fileSchema } from './schema.ts'

const page = readFileSync(path.resolve(import.meta.dirname, '../../../../docs/configuration.md'), 'utf8')
const [, shown] = /```yaml\n(listen:.*?)```/s.exec(page)!

describe('the configuration in docs/configuration.md', () => {
  it('shows exactly the defaults', () => {
    const defaults = fileSchema.parse({}) as Record<string, unknown>
    expect(parse(shown!)).toEqual(defaults)
  })

  it('has every key', () => {
    const keys = [...leavesOf(fileSchema).values()].map(({ path }) => path)
    // The documentation shows these sections as one example.
    const sections = ['docker', 'fronts', 'host_image', 'io_limit', 'jwt', 'open_network', 'quotas']
    const missing = keys.filter(
      ([first, ...rest]) =>
        !new RegExp(`^ *(# )?${(sections.includes(first!) ? first : rest.at(-1)) ?? first}:`, 'm').test(
          shown!,
        ),
    )
    expect(missing).toEqual([])
  })

  it('shows every key of jwt, with its default', () => {
    const [, block] = /```yaml\n(jwt:.*?)```/s.exec(page)!
    const defaults = fileSchema.parse({ jwt: {} }).jwt
    expect(parse(block!)).toEqual({ jwt: defaults })
    for (const name of [...leavesOf(fileSchema).values()].flatMap(({ path: [first, key] }) =>
      first === 'jwt' ? [key!] : [],
    ))
      expect(block, name).toMatch(new RegExp(`^  (# )?${name}: `, 'm'))
  })
})
