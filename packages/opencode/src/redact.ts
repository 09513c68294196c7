/** Shorter values would match by chance. */
const leastLength = 6
const mostSecrets = 200

export type Redact = (text: string) => string

/** Replaces known secrets, in the forms in which programs repeat them. */
export function redactor(secrets: readonly string[]): Redact {
  const forms = [...new Set(secrets.flatMap(formsOf))].filter(({ length }) => length >= leastLength)
  if (forms.length === 0) return (text) => text
  // Of two that begin at the same place, the longer one has to be removed.
  const longestFirst = forms.sort((one, other) => other.length - one.length).slice(0, mostSecrets)
  const escaped = longestFirst.map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'))
  const pattern = new RegExp(escaped.join('|'), 'g')
  return (text) => text.replace(pattern, '[redacted]')
}

const secretNames = /key|token|secret|pass|auth|credential|cookie/i

/** All texts in a value whose name, or the name of an object around them, says that they are secret. */
export function secretsIn(value: unknown, inside = false, depth = 0): string[] {
  if (typeof value === 'string') return inside ? [value] : []
  if (typeof value !== 'object' || value === null || depth > 20) return []
  return Object.entries(value).flatMap(([name, inner]) =>
    secretsIn(inner, inside || secretNames.test(name), depth + 1),
  )
}

function formsOf(secret: string): string[] {
  const text = secret.trim()
  const basic = Buffer.from(text).toString('base64').replace(/=+$/, '')
  return [text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1), basic]
}
