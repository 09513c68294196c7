import { addresses } from './addresses.ts'
import { daemon } from './daemon.ts'
import { dns, inwardNames } from './dns.ts'
import { host } from './host.ts'
import { http } from './http.ts'
import { protocols } from './protocols.ts'
import { sources } from './sources.ts'
import { tls } from './tls.ts'
import type { Way } from './way.ts'

/** What no policy opens as a whole, and the network `open` neither. */
export const inward: readonly Way[] = [...host, ...daemon]
/** The same, and names that lead there. */
export const inwardOrNamed: readonly Way[] = [...inward, ...inwardNames()]
export const ways: readonly Way[] = [
  ...addresses,
  ...dns,
  ...tls,
  ...http,
  ...protocols,
  ...sources,
  ...inward,
]
