import type { SecretValue } from '../../spec/index.ts'
import { checkKnown, invalid } from '../validate.ts'
import { addressOf } from './addresses.ts'
import { patternOf } from './hosts.ts'
import type { NormalTransform } from './normal.ts'
import { isSecretName, secretNames } from './secret.ts'

const most = { headers: 50, methods: 20, path: 2000, value: 8000, affix: 1000 }

export function transformOf(transform: unknown, at: string): NormalTransform {
  const where = `network.${at}`
  if (!isRecord(transform) || !isRecord(transform.match) || !isRecord(transform.headers))
    throw invalid(
      `\`${where}\` is not a transform.`,
      "Use { match: { host: 'api.github.com' }, headers: { authorization: secret('github') } }.",
      { rule: at },
    )
  checkKnown(transform, ['match', 'headers'], `\`${where}\``)
  const headers = Object.entries(transform.headers)
  if (headers.length === 0 || headers.length > most.headers)
    throw invalid(`\`${where}.headers\` has ${headers.length} headers.`, `Use 1 to ${most.headers}.`)
  const names = headers.map(([name]) => headerName(name, where))
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw invalid(`\`${where}.headers\` has ${twice} twice.`, 'Keep one of them.')
  return {
    match: matchOf(transform.match, `${where}.match`),
    headers: Object.fromEntries(
      headers.map(([name, value], at) => [names[at], headerValue(value, name, where)]),
    ),
  }
}

function matchOf(match: Record<string, unknown>, where: string): NormalTransform['match'] {
  checkKnown(match, ['host', 'path', 'method', 'methods'], `\`${where}\``)
  const { host, path, method, methods = method } = match
  if (typeof host === 'string' && addressOf(host))
    throw invalid(
      `\`${where}.host\` is an address.`,
      'A transform needs a name: its certificate is for a name.',
    )
  if (method !== undefined && match.methods !== undefined)
    throw invalid(`\`${where}\` has both \`method\` and \`methods\`.`, 'Keep one of them.')
  return {
    host: patternOf(host, `${where}.host`),
    ...(path === undefined ? {} : { path: pathOf(path, where) }),
    ...(methods === undefined ? {} : { methods: methodsOf(methods, where) }),
  }
}

function pathOf(path: unknown, where: string): string {
  if (
    typeof path === 'string' &&
    path.length <= most.path &&
    /^\/[\x21-\x7e]*$/.test(path) &&
    !/[?#]/.test(path)
  )
    return path
  throw invalid(
    `\`${where}.path\` must be the beginning of a path.`,
    'For example /repos/. Percent-encode other than ASCII, and omit the query.',
  )
}

function methodsOf(methods: unknown, where: string): string[] {
  const list: unknown[] = Array.isArray(methods) ? [...methods] : [methods]
  const valid = list.every(
    (method) => typeof method === 'string' && method.length <= 50 && token.test(method),
  )
  if (valid && list.length >= 1 && list.length <= most.methods)
    return [...new Set((list as string[]).map((method) => method.toUpperCase()))].sort()
  throw invalid(
    `\`${where}.method\` must be 1 to ${most.methods} HTTP methods.`,
    "For example ['GET', 'HEAD'].",
  )
}

const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i

/**
 * These describe the connection or the message, so that setting them would change where a request goes or ends, or keep
 * the gateway from finding secrets in the answer. The gateway has the same list.
 */
const reserved = new Set([
  'accept-encoding',
  'connection',
  'content-length',
  'expect',
  'host',
  'http2-settings',
  'if-range',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'range',
  'sec-websocket-accept',
  'sec-websocket-extensions',
  'sec-websocket-key',
  'sec-websocket-version',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

function headerName(name: string, where: string): string {
  const shown = JSON.stringify(name.slice(0, 100))
  if (!token.test(name) || name.length > 100)
    throw invalid(`\`${where}.headers\` has an invalid name: ${shown}.`, 'For example authorization.')
  const lower = name.toLowerCase()
  if (reserved.has(lower)) throw invalid(`\`${where}.headers\` must not set ${lower}.`, 'Omit it.')
  return lower
}

/** Errors do not show the value, which may be a secret. */
function headerValue(value: unknown, name: string, where: string): string | SecretValue {
  const place = `${where}.headers[${JSON.stringify(name)}]`
  if (typeof value === 'string') return headerText(value, place, most.value)
  if (!isRecord(value))
    throw invalid(
      `\`${place}\` must be a string or a secret.`,
      "For example secret('github', { prefix: 'Bearer ' }).",
    )
  checkKnown(value, ['secret', 'prefix', 'suffix', 'basic'], `\`${place}\``)
  const { secret, prefix, suffix, basic } = value
  if (!isSecretName(secret)) throw invalid(`\`${place}.secret\` is not the name of a secret.`, secretNames)
  if (basic !== undefined && (prefix !== undefined || suffix !== undefined))
    throw invalid(`\`${place}\` has \`basic\` and \`prefix\` or \`suffix\`.`, 'Use `basic` alone.')
  if (typeof basic === 'string' && basic.includes(':'))
    throw invalid(`\`${place}.basic\` contains a colon.`, 'Use the name of the user only.')
  const part = (key: 'prefix' | 'suffix' | 'basic') =>
    value[key] === undefined ? {} : { [key]: headerText(value[key], `${place}.${key}`, most.affix) }
  return { secret, ...part('prefix'), ...part('suffix'), ...part('basic') }
}

function headerText(value: unknown, place: string, length: number): string {
  if (typeof value === 'string' && value.length <= length && /^[\t\x20-\x7e]*$/.test(value)) return value
  throw invalid(`\`${place}\` must be at most ${length} printable ASCII characters, without line breaks.`)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
