import { createHash } from 'node:crypto'
import { defaultIdRanges, IdRanges, RANGE_SIZE } from '../isolators/oci/privileges/id-ranges.ts'

/** The owner of the range in the folder of all ranges. No sandbox's folder has this name. */
const OWNER = 'gateways'

/**
 * The id of this root's gateway, if the engine runs as root. All gateways of the machine share one range, which no
 * sandbox and no user has. Each root has its own id in it, so that one gateway cannot signal another.
 */
export function gatewayUser(root: string, ranges = new IdRanges(defaultIdRanges)): number {
  const known = [...ranges.owners()].filter(([, owner]) => owner === OWNER).map(([first]) => first)
  // Two processes that take one at the same time both keep it; the lower one counts from then on.
  const first = known.length > 0 ? Math.min(...known) : ranges.take(OWNER)
  const hash = createHash('sha256').update(root).digest().readUInt32BE(0)
  return first + 1 + (hash % (RANGE_SIZE - 2))
}

/** The name of this root's folder among the sockets. */
export function gatewayFolder(root: string): string {
  return `gateway-${createHash('sha256').update(root).digest('hex').slice(0, 12)}`
}
