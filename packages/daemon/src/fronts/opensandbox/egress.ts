import { z } from 'zod'
import type { Session } from '../../sessions/index.ts'
import { networkOfRow } from '../../sessions/index.ts'
import { isClosed } from '../shared/network.ts'
import { notSupported, parsed } from '../shared/request.ts'
import type { Call, Entry, Method } from './entry.ts'
import { networkFor, policyView } from './network.ts'
import * as schemas from './schemas.ts'

/** OpenSandbox's egress sidecar: the policy of a sandbox, and changes of it. */
export function egressRoutes(entry: Entry): void {
  entry.egress('GET', '/policy', 'read', async ({ caller, id }) => statusOf(await entry.find(caller, id)))

  entry.egress('POST', '/policy', 'exec', async (call) =>
    change(entry, call, () => parsed(schemas.networkPolicy, call.body)),
  )
  // Incoming rules come before the earlier ones, and replace those for the same target.
  entry.egress('PATCH', '/policy', 'exec', async (call) =>
    change(entry, call, (policy) => {
      const incoming = parsed(z.array(schemas.networkRule).max(1000), call.body)
      const egress = incoming.filter(
        ({ target }, at) => incoming.findIndex((one) => one.target === target) === at,
      )
      const kept = (policy.egress ?? []).filter(({ target }) => !egress.some((one) => one.target === target))
      return { ...policy, egress: [...egress, ...kept] }
    }),
  )
  entry.egress('DELETE', '/policy', 'exec', async (call) =>
    change(entry, call, (policy) => {
      const targets = new Set(parsed(z.array(z.string()).max(1000), call.body))
      return { ...policy, egress: (policy.egress ?? []).filter(({ target }) => !targets.has(target)) }
    }),
  )

  const methods: readonly Method[] = ['GET', 'POST', 'PATCH', 'DELETE']
  for (const path of ['/credential-vault', '/credential-vault/*'])
    for (const method of methods)
      entry.egress(method, path, 'exec', async ({ caller, id }) => {
        await entry.find(caller, id)
        throw notSupported('The credential vault', 'Use secrets of this daemon; see docs/secrets.md.')
      })
}

async function change(
  entry: Entry,
  { caller, id }: Call,
  next: (policy: schemas.NetworkPolicy) => schemas.NetworkPolicy,
): Promise<object> {
  const { sessions } = entry.services
  const session = await entry.find(caller, id)
  const before = networkOfRow(session)
  const place = { rules: await sessions.rules(caller), provider: sessions.provider }
  const network = networkFor(next(policyView(before)), place)
  if (network === undefined || network === session.network) return statusOf(session)
  // What OpenSandbox does not know stays, such as headers that another client has set.
  const kept = typeof network === 'object' && typeof before === 'object' ? { ...before, ...network } : network
  return statusOf(await sessions.networks.set(caller, id, kept))
}

function statusOf(session: Session): object {
  const network = networkOfRow(session)
  const mode = network === 'open' ? 'allow_all' : isClosed(network) ? 'deny_all' : 'enforcing'
  return { status: 'ok', mode, enforcementMode: 'network', policy: policyView(network) }
}
