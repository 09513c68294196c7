/** `npm run test:quick`: unit tests, the conformance kit on memory and local, and the boundaries. No runner, no root. */
import { run, stages } from './tools.ts'

/** Filters for vitest. Other tests are slow, or need a sandbox, a daemon or a vendor's SDK. */
const files = [
  'test/boundaries',
  'packages/sdk/src/shared',
  'packages/sdk/src/resilience/retry',
  'packages/sdk/src/resilience/failover',
  'packages/sdk/src/providers/memory',
  'packages/sdk/src/providers/local/conformance',
  'packages/sdk/src/providers/local/paths',
  'packages/sdk/src/testing/conformance.memory',
  'packages/cloudflare/src/discover',
  'packages/cloudflare/src/plan',
  'packages/daemon/src/config',
  'packages/daemon/src/fronts',
  'packages/engine/src/isolators/oci/seccomp',
  'packages/registry/src/names',
  'packages/registry/src/scope',
  'packages/registry/src/leases/turns',
  'packages/registry/src/leases/watch',
  'packages/cli/test/format',
  'packages/cli/test/startup',
]

await stages([{ name: 'quick tests', run: () => run('vitest', ['run', '--reporter=dot', ...files]) }])
