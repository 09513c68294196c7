import type { ReachedTargets } from '@sandkasten/sdk/provider'
import type { SessionPolicy } from './policy.ts'

/** The policy with rules for exactly what was reached, and without `audit`. */
export function learnedPolicy(policy: SessionPolicy, reached: ReachedTargets): SessionPolicy {
  const services = policy.services.filter((name) => reached.hasService(name))
  return { ...policy, allow: reached.rules(), services, audit: false }
}
