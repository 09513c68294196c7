import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { tools } from './index.ts'

describe('tools', () => {
  it('have names, descriptions and schemas that change only on purpose', async () => {
    const text = tools
      .map(({ name, title, description, input, readOnly }) => {
        const schema = JSON.stringify(z.toJSONSchema(input, { io: 'input' }), null, 2)
        return `${name}: ${title}${readOnly ? ' (read only)' : ''}\n${description}\n${schema}\n`
      })
      .join('\n')
    await expect(text).toMatchFileSnapshot('testing/tools.txt')
  })

  it('have a limit for every string and number', () => {
    for (const { name, input } of tools) {
      const { properties } = z.toJSONSchema(input, { io: 'input' }) as {
        properties: Record<string, { type: string; enum?: unknown; maxLength?: number; maximum?: number }>
      }
      for (const [property, schema] of Object.entries(properties)) {
        const limit = schema.type === 'string' ? (schema.enum ?? schema.maxLength) : schema.maximum
        if (schema.type !== 'boolean') expect(limit, `${name}.${property}`).toBeDefined()
      }
    }
  })

  it('are the seed’s, and more', () => {
    expect(tools.map(({ name }) => `sandbox_${name}`)).toEqual(
      expect.arrayContaining([
        'sandbox_run_command',
        'sandbox_write_file',
        'sandbox_read_file',
        'sandbox_list_files',
        'sandbox_get_url',
        'sandbox_upload_file',
      ]),
    )
  })
})
