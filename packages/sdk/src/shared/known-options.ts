import { SandboxError } from '../errors.ts'

/** Throws `invalid_argument` for an unknown option. The hint suggests a similar one. */
export function checkKnown(options: object, known: readonly string[], call: string): void {
  checkObject(options, call, `It takes: ${known.join(', ')}.`)
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue
    const near = nearest(key, known)
    throw refusal(
      `${call} has no option \`${key}\`.`,
      near === undefined ? `It takes: ${known.join(', ')}.` : `Did you mean \`${near}\`?`,
    )
  }
}

/** Throws `invalid_argument` if the options are not an object. */
export function checkObject(options: unknown, call: string, hint: string): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw refusal(`${call} takes an object of options.`, hint)
}

function refusal(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}

/** The option with at most two other letters, or one that begins with the key. */
function nearest(key: string, known: readonly string[]): string | undefined {
  const given = key.toLowerCase()
  const [near] = known
    .map((name) => ({ name, off: distance(name.toLowerCase(), given) }))
    .filter(({ off }) => off <= 2)
    .sort((a, b) => a.off - b.off)
  return near?.name ?? known.find((name) => given.length > 2 && name.toLowerCase().startsWith(given))
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= b.length; j += 1) {
      next[j] = Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]!
}
