import type { IncomingMessage } from 'node:http'

/** A response of the double; `code` and `message` are the vendor's form of an error. */
export interface Answer {
  readonly status: number
  readonly body?: unknown
  readonly bytes?: Uint8Array
  readonly html?: string
}

export interface Request {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

export function refusal(status: number, code: string, message: string): Answer {
  return { status, body: { code, message, error: message } }
}

interface Types {
  string: string
  number: number
  boolean: boolean
  env: Record<string, string>
  strings: string[]
}

/** A body, checked: the double refuses what the vendor's SDK never sends. */
export function fieldsOf<T extends Readonly<Record<string, keyof Types>>>(
  body: unknown,
  types: T,
): { readonly [N in keyof T]?: Types[T[N]] } | Answer {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return refusal(400, 'INVALID_JSON', 'The body is no object.')
  for (const [name, value] of Object.entries(body)) {
    const type = types[name]
    if (type === undefined) return refusal(400, 'INVALID_REQUEST', `Unknown field: ${name}`)
    const isStrings = (all: unknown[]) => all.every((one) => typeof one === 'string')
    const fits =
      type === 'strings'
        ? Array.isArray(value) && isStrings(value)
        : type === 'env'
          ? typeof value === 'object' && value !== null && isStrings(Object.values(value))
          : typeof value === type
    if (!fits) return refusal(400, 'INVALID_REQUEST', `Wrong field: ${name}`)
  }
  return body as { [N in keyof T]?: Types[T[N]] }
}

export function isAnswer(value: object): value is Answer {
  return typeof (value as { status?: unknown }).status === 'number'
}
