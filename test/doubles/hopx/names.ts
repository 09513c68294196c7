import dns, { type LookupAddress } from 'node:dns'

/**
 * Lets this process find `*.vms.hopx.dev` on this machine, so that the double can use the vendor's own names: the
 * provider derives the address of a port from them. Returns a function that undoes it.
 */
export function hopxNamesHere(): () => void {
  const { lookup } = dns
  const own = (name: string, options: unknown, done?: unknown) => {
    if (!name.endsWith('.vms.hopx.dev')) return (lookup as (...all: unknown[]) => void)(name, options, done)
    const answer = (typeof options === 'function' ? options : done) as (
      error: null,
      address: string | LookupAddress[],
      family?: number,
    ) => void
    const all = typeof options === 'object' && (options as { all?: boolean } | null)?.all === true
    process.nextTick(() =>
      all ? answer(null, [{ address: '127.0.0.1', family: 4 }]) : answer(null, '127.0.0.1', 4),
    )
  }
  dns.lookup = own as typeof lookup
  return () => {
    dns.lookup = lookup
  }
}
