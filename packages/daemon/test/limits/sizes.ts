import { requestLimits } from '../../src/sessions/index.ts'

/** The parts of a JSON schema that limit the size of a value. */
export interface Schema {
  $ref?: string
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  additionalProperties?: Schema | boolean
  propertyNames?: Schema
  minimum?: number
  exclusiveMinimum?: number
  maximum?: number
  exclusiveMaximum?: number
  minLength?: number
  maxLength?: number
  maxItems?: number
  pattern?: string
  format?: string
}

/** A changed value and its description. */
export interface Variant {
  readonly what: string
  readonly value: unknown
}

/** 0, 1, the limit and its neighbours, and two numbers that overflow. */
export function numbersAround(limit: number): number[] {
  return [...new Set([0, 1, limit - 1, limit, limit + 1, 2 ** 31, 2 ** 53])]
}

/** For lengths and counts: at most a megabyte. */
export function lengthsAround(limit: number): number[] {
  return [...new Set([0, 1, limit - 1, limit, limit + 1, 1_048_577])].filter((length) => length <= 1_100_000)
}

/**
 * Generates a valid value for a schema, and variants with one number, length or count at or beyond a limit. `samples`
 * has values that a schema cannot describe, such as the path of an existing file.
 */
export class Sizes {
  readonly #schemas: Record<string, Schema>
  readonly #samples: Readonly<Record<string, unknown>>

  constructor(schemas: Record<string, Schema>, samples: Readonly<Record<string, unknown>>) {
    this.#schemas = schemas
    this.#samples = samples
  }

  /** Returns a value with the required fields only. */
  valid(given: Schema, name = ''): unknown {
    const schema = this.#resolved(given)
    if (name in this.#samples) return this.#samples[name]
    if (schema.const !== undefined) return schema.const
    if (schema.enum) return schema.enum[0]
    const [first] = schema.anyOf ?? schema.oneOf ?? []
    if (first) return this.valid(first, name)
    switch (schema.type) {
      case 'object':
        return Object.fromEntries(
          (schema.required ?? []).map((key) => [key, this.valid(schema.properties![key]!, key)]),
        )
      case 'array':
        return []
      case 'integer':
      case 'number':
        return Math.max(1, schema.minimum ?? 1)
      case 'boolean':
        return false
      default:
        return schema.format === 'base64' ? 'YQ==' : 'a'
    }
  }

  *variants(given: Schema, name = ''): Generator<Variant> {
    const schema = this.#resolved(given)
    for (const option of schema.anyOf ?? schema.oneOf ?? []) yield* this.variants(option, name)
    if (schema.enum || schema.const !== undefined) return
    switch (schema.type) {
      case 'object':
        yield* this.#objects(schema, name)
        return
      case 'array':
        for (const count of lengthsAround(schema.maxItems ?? 1000).filter((count) => count <= 20_000))
          yield {
            what: `${name}: ${count} items`,
            value: Array.from({ length: count }, () => this.valid(schema.items ?? {}, '')),
          }
        for (const { what, value } of this.variants(schema.items ?? {}, `${name}[0]`))
          yield { what, value: [value] }
        return
      case 'integer':
      case 'number':
        for (const value of numbersAround(schema.maximum ?? schema.exclusiveMaximum ?? 2 ** 31))
          yield { what: `${name} = ${value}`, value }
        return
      case 'string':
        for (const length of lengthsAround(schema.maxLength ?? 65_536))
          yield { what: `${name}: ${length} characters`, value: textOf(schema, length) }
    }
  }

  *#objects(schema: Schema, name: string): Generator<Variant> {
    const base = this.valid(schema, name) as Record<string, unknown>
    for (const [key, inner] of Object.entries(schema.properties ?? {}))
      for (const { what, value } of this.variants(inner, key))
        yield { what, value: { ...base, [key]: value } }
    if (typeof schema.additionalProperties !== 'object') return
    const most = name === 'env' ? requestLimits.envVars : requestLimits.labels
    for (const count of [0, 1, most - 1, most, most + 1, 20_000])
      yield {
        what: `${name}: ${count} entries`,
        value: Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 'v'])),
      }
    for (const length of lengthsAround(schema.propertyNames?.maxLength ?? 65_536))
      yield { what: `${name}: a key of ${length} characters`, value: { ['k'.repeat(length)]: 'v' } }
    for (const { what, value } of this.variants(schema.additionalProperties, `${name}.k`))
      yield { what, value: { k: value } }
  }

  #resolved(schema: Schema): Schema {
    return schema.$ref ? this.#schemas[schema.$ref.split('/').at(-1)!]! : schema
  }
}

function textOf({ format, pattern = '' }: Schema, length: number): string {
  if (format === 'base64') return 'A'.repeat(length - (length % 4))
  return (/\\d/.test(pattern) ? '9' : 'a').repeat(length)
}
