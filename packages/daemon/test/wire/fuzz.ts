import { expect } from 'vitest'
import type { TestDaemon } from '../../src/testing/daemon.ts'

/** Values that are often invalid. */
const odd = [
  '',
  ' ',
  '..',
  '../../x',
  '%00',
  '\0',
  'a'.repeat(300),
  '💥',
  '‮',
  '\ud800',
  '{"a":1}',
  '0',
  '-1',
  '1e9',
  'null',
  '%',
  '/',
  '//',
  '.%2e/',
  '%2e%2e%2f',
  'a\r\nx-injected: 1',
  "';--",
  '$(id)',
]

/**
 * Sends requests that are generated from the OpenAPI document, mostly valid ones. Throws on a 500, on an error that is
 * not a problem document, and on a timeout. Returns the statuses that were seen.
 */
export async function fuzz(
  daemon: TestDaemon,
  { seed, rounds, logged = [] }: { seed: number; rounds: number; logged?: string[] },
): Promise<number[]> {
  const { body: document } = await daemon.call('GET', '/openapi.json')
  const random = numbers(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const value = values(document, random, pick)
  const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  )
  let id = ''
  const seen = new Set<number>()
  for (let round = 0; round < rounds; round += 1) {
    for (const { method, path, operation } of operations) {
      if (id === '' || random() < 0.1) id = (await daemon.call('POST', '/v1/sessions', {})).body.id ?? id
      const where = path.replace(/\{(\w+)\}/g, (_, name) =>
        encodeURIComponent((name === 'id' && random() < 0.8 ? id : pick(['e1', ...odd])).toWellFormed()),
      )
      const query = new URLSearchParams()
      for (const parameter of operation.parameters ?? [])
        if (parameter.in === 'query' && (parameter.required || random() < 0.5))
          query.set(parameter.name, String(value(parameter.schema)))
      const content = operation.requestBody?.content
      const body = content?.['application/json']
        ? JSON.stringify(value(content['application/json'].schema))
        : content
          ? pick(odd)
          : undefined
      const what = `${method} ${where}?${query} ${body}`
      const leaving = new AbortController()
      // Far longer than any request takes, so a request that still waits hangs.
      const hangs = setTimeout(() => leaving.abort(new Error(`no answer: ${what}`)), 45_000)
      const response = await daemon.fetch(`${where}?${query}`, {
        method,
        body,
        signal: leaving.signal,
        headers: { 'idempotency-key': pick(['', 'k']) },
      })
      seen.add(response.status)
      expect(response.status, `${what}\n${logged.join('\n')}`).not.toBe(500)
      if (response.status >= 400)
        expect(((await response.json()) as { type: string }).type).toMatch(/^urn:sandkasten:problem:/)
      else if (!response.headers.get('content-type')?.includes('event-stream')) await some(response)
      clearTimeout(hangs)
      leaving.abort()
    }
  }
  return [...seen]
}

/** Reads the beginning of a response, because an archive may be very large. */
async function some(response: Response): Promise<void> {
  let left = 1_048_576
  for await (const chunk of response.body ?? []) {
    left -= chunk.length
    if (left < 0) return
  }
}

/** Generates values for a schema, and sometimes invalid ones. */
function values(
  document: { components: { schemas: Record<string, Schema> } },
  random: () => number,
  pick: <T>(list: readonly T[]) => T,
): (schema: Schema) => unknown {
  const value = (schema: Schema): unknown => {
    const { $ref } = schema
    if ($ref) return value(document.components.schemas[$ref.split('/').at(-1)!]!)
    if (random() < 0.08) return pick<unknown>([null, 1, -1, 1e308, '', [], {}, true, 'x', [[[[]]]], ...odd])
    if (schema.const !== undefined) return schema.const
    if (schema.enum) return pick(schema.enum)
    if (schema.anyOf) return value(pick(schema.anyOf))
    if (schema.type === 'object' && schema.properties)
      return Object.fromEntries(
        Object.entries(schema.properties)
          .filter(([name]) => schema.required?.includes(name) || random() < 0.4)
          .map(([name, inner]) => [name, value(inner)]),
      )
    if (schema.type === 'object') return { [pick(['a', '__proto__', 'constructor', ''])]: pick(odd) }
    if (schema.type === 'array')
      return Array.from({ length: Math.floor(random() * 3) }, () => value(schema.items ?? {}))
    if (schema.type === 'integer' || schema.type === 'number')
      return pick([0, 1, 2, 100, 5000, -1, 1.5, 2 ** 53])
    if (schema.type === 'boolean') return random() < 0.5
    return pick(['a', 'b', 'e1', 'aGk=', ...odd])
  }
  return value
}

/** A deterministic random number generator. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

interface Schema {
  $ref?: string
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
}

interface Operation {
  parameters?: Array<{ name: string; in: string; required: boolean; schema: Schema }>
  requestBody?: { content: Record<string, { schema: Schema }> }
}
