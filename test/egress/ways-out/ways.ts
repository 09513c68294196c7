import { addresses } from './addresses.ts'
import { daemon } from './daemon.ts'
import { dns } from './dns.ts'
import { host } from './host.ts'
import { http } from './http.ts'
import { protocols } from './protocols.ts'
import { tls } from './tls.ts'
import type { Way } from './way.ts'

/** What no policy opens as a whole, and the network `open` neither. */
export const inward: readonly Way[] = [...host, ...daemon]
export const ways: readonly Way[] = [...addresses, ...dns, ...tls, ...http, ...protocols, ...inward]
