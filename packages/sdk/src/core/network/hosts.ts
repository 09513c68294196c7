import { invalid } from '../validate.ts'
import { addressOf } from './addresses.ts'

/** Where a sandbox finds the services of its policy. */
export const serviceDomain = 'sandkasten.internal'

export function isServiceName(name: string): boolean {
  return /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name)
}

/** `*.Bücher.example.` is `*.xn--bcher-kva.example`. */
export function patternOf(value: unknown, where: string): string {
  if (value === '*')
    throw invalid(`\`${where}\` is "*".`, 'Only `allow` takes it, without ports. Name the hosts.')
  if (typeof value === 'string' && value.startsWith('*.')) return `*.${hostOf(value.slice(2), where)}`
  return hostOf(value, where)
}

/** A name in lower-case ASCII, without a trailing dot. */
export function hostOf(value: unknown, where: string): string {
  if (typeof value !== 'string' || value === '') throw invalid(`\`${where}\` must be a host name.`)
  const shown = JSON.stringify(value.slice(0, 100))
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(value))
    throw invalid(`\`${where}\` is a URL: ${shown}.`, `Write only the host${hostIn(value)}.`)
  if (value.includes('*'))
    throw invalid(
      `\`${where}\` has a \`*\` inside: ${shown}.`,
      'Use `*.example.com` for all names below a domain.',
    )
  const ascii = value.length <= 1000 && /^[\p{L}\p{N}\p{M}._-]+$/u.test(value) ? asciiOf(value) : undefined
  if (ascii !== undefined && addressOf(ascii))
    throw invalid(
      `\`${where}\` is an unusual form of the address ${ascii}: ${shown}.`,
      `Write { cidr: "${ascii}" } or "${ascii}".`,
    )
  const name = ascii?.endsWith('.') ? ascii.slice(0, -1) : ascii
  if (name === undefined || name.length > 253 || !name.split('.').every(isLabel))
    throw invalid(
      `\`${where}\` is not a host name: ${shown}.`,
      'Use a name such as github.com, *.github.com or github.com:22, an address, or a network such as 198.51.100.0/24.',
    )
  return name
}

/** URLs have the conversion of internationalized names, in browsers and Workers, too. */
function asciiOf(name: string): string | undefined {
  try {
    return new URL(`http://${name}/`).hostname
  } catch {
    return undefined
  }
}

function hostIn(url: string): string {
  try {
    const { hostname } = new URL(url)
    return hostname === '' ? '' : `: "${hostname}"`
  } catch {
    return ''
  }
}

/** Some hosts have underscores. */
function isLabel(label: string): boolean {
  return /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label)
}
