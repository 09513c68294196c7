import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { testedRuntime } from '../../../packages/engine/src/isolators/oci/testing/runtimes.ts'
import { waysOutOf } from './kit.ts'

const runtime = testedRuntime('runsc')

waysOutOf({
  name: 'oci on runsc',
  missing: await reasonToSkip('root', runtime),
  options: async () => ({ oci: { runtime } }),
  hasOpen: false,
  differs({ name, event }) {
    if (name === 'mptcp') return { event: { unseen: 'gVisor has no multipath TCP' }, opens: false }
    if (name === 'fast-open')
      return { event: { unseen: 'gVisor does not send data before it is connected' }, opens: false }
    // gVisor looks for the neighbour on its interface. The machine's kernel would connect at once.
    if ('address' in event && event.address?.startsWith('fe80::'))
      return { event: { kind: 'icmp', address: event.address.replace('fe80::', 'ff02::1:ff00:') } }
    return undefined
  },
})
