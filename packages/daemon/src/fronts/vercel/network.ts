import { z } from 'zod'
import type { NetworkPolicy } from '../shared/network.ts'
import { notSupported } from '../shared/request.ts'

export const networkPolicy = z.looseObject({ mode: z.string().optional() })

/** Maps Vercel's policy to a policy for all traffic. Throws for rules that cannot be enforced. */
export function policyOf(given: z.infer<typeof networkPolicy> | undefined): NetworkPolicy | undefined {
  if (given === undefined) return undefined
  if (given.mode === 'allow-all' || given.mode === 'deny-all') return given.mode
  throw notSupported('A network policy with rules', 'Use "allow-all" or "deny-all".')
}
