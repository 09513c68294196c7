import { addresses } from './addresses.ts'
import { dns } from './dns.ts'
import { host } from './host.ts'
import { http } from './http.ts'
import { protocols } from './protocols.ts'
import { tls } from './tls.ts'
import type { Way } from './way.ts'

export const ways: readonly Way[] = [...addresses, ...dns, ...tls, ...http, ...protocols, ...host]
