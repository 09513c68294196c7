import { notSupported } from '../shared/request.ts'
import type { Entry, Method } from './entry.ts'
import { policyView } from './network.ts'

/** OpenSandbox's egress sidecar. Its policy can be read, but not changed while the sandbox lives. */
export function egressRoutes(entry: Entry): void {
  entry.egress('GET', '/policy', 'read', async ({ caller, id }) => {
    const { network } = await entry.find(caller, id)
    const mode = network === 'open' ? 'allow_all' : 'deny_all'
    return { status: 'ok', mode, enforcementMode: 'network', policy: policyView(network) }
  })

  for (const method of ['POST', 'PATCH', 'DELETE'] as const)
    entry.egress(method, '/policy', 'exec', async ({ caller, id }) => {
      await entry.find(caller, id)
      throw notSupported('A change of the network policy', 'Set networkPolicy when you create the sandbox.')
    })

  const methods: readonly Method[] = ['GET', 'POST', 'PATCH', 'DELETE']
  for (const path of ['/credential-vault', '/credential-vault/*'])
    for (const method of methods)
      entry.egress(method, path, 'exec', async ({ caller, id }) => {
        await entry.find(caller, id)
        throw notSupported('The credential vault', 'Pass credentials as env, to sandboxes that you trust.')
      })
}
