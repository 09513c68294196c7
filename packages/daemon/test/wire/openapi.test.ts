import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

/** To regenerate the document, run `vitest run packages/daemon/test/wire/openapi -u`. */
describe('the OpenAPI document', () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon()
  })
  afterAll(() => daemon?.stop())

  it('is the one in protocol/', async () => {
    const { body } = await daemon.call('GET', '/openapi.json', undefined, { key: '' })
    await expect(`${JSON.stringify(body, null, 2)}\n`).toMatchFileSnapshot(
      '../../../../protocol/http.openapi.json',
    )
  })

  it('has an answer, a problem and a scope for every operation, and only references that exist', async () => {
    const { body } = await daemon.call('GET', '/openapi.json')
    const names = Object.keys(body.components.schemas)
    const operations = Object.values<Record<string, Record<string, never>>>(body.paths).flatMap((path) =>
      Object.values(path),
    )
    expect(operations.length).toBeGreaterThan(50)
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
    for (const operation of operations) expect(Object.keys(operation.responses ?? {})).toContain('default')
    const references = [...JSON.stringify(body).matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(
      ([, name]) => name,
    )
    expect(names).toEqual(expect.arrayContaining(references))
  })
})
