import { SandboxError } from '../../errors.ts'

/** Of each value that our gateway puts into headers: the same limits in the gateway, the engine, daemon and registry. */
export const secretLimits = {
  /** A shorter value would be found by chance in the answers of servers, and be masked there. */
  leastBytes: 6,
  mostBytes: 4_096,
  /** Different secrets of one policy, and their bytes together. */
  perPolicy: 64,
  policyBytes: 65_536,
} as const

/** Throws for a value that no header can carry, or that the gateway cannot mask. `what` is for people. No error shows the value. */
export function checkSecretValue(value: unknown, what: string): string {
  const { leastBytes, mostBytes } = secretLimits
  const hint = `A secret has ${leastBytes} to ${mostBytes} printable ASCII characters. It is sent in a header, so remove line breaks and tabs.`
  const refused = (reason: string) => new SandboxError('invalid_argument', `${what} ${reason}.`, { hint })
  if (typeof value !== 'string') throw refused('is not text')
  if (value.length > mostBytes)
    throw new SandboxError('too_large', `${what} is longer than ${mostBytes} bytes.`, { hint })
  if (!/^[\x20-\x7e]*$/.test(value)) throw refused('has other characters than printable ASCII')
  if (value.length < leastBytes) throw refused(`is shorter than ${leastBytes} bytes`)
  return value
}
