import type { z } from 'zod'
import type { GivenNetwork } from '../sessions/index.ts'
import type * as schemas from './schemas.ts'

/** A network of a request in the names of the SDK. The sessions check it. */
export function givenNetwork(body: z.infer<typeof schemas.networkBody>): GivenNetwork {
  if (typeof body === 'string') return body
  const { limits, ...policy } = body
  if (!limits) return policy as GivenNetwork
  const { bytes_per_second: bytesPerSecond, ...others } = limits
  return { ...policy, limits: { ...others, bytesPerSecond } } as GivenNetwork
}
