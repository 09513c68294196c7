import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { testedRuntime } from '../../../packages/engine/src/isolators/oci/testing/runtimes.ts'
import { waysOutOf } from './kit.ts'

const runtime = testedRuntime('runsc')

waysOutOf({
  name: 'oci on runsc',
  missing: await reasonToSkip('root', runtime),
  options: async () => ({ oci: { runtime } }),
  hasOpen: false,
  differs: {
    mptcp: { event: { unseen: 'gVisor has no multipath TCP' }, opens: false },
    'fast-open': { event: { unseen: 'gVisor does not send data before it is connected' }, opens: false },
    // gVisor searches for the neighbour on its interface. The sandbox's own kernel would connect at once.
    'link-local': { event: { kind: 'icmp', address: 'ff02::1:ff00:77' } },
    'host-link-local': { event: { kind: 'icmp', address: 'ff02::1:ff00:78' } },
  },
})
