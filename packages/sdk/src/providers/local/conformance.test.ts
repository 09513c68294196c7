import { afterAll, describe, it } from 'vitest'
import { conformance, posixCommands } from '../../testing/index.ts'
import { processesOf, providerAt, temporaryFolder } from './test-helper.ts'

const root = await temporaryFolder()

conformance({
  title: 'conformance: local (isolation: none)',
  runner: { describe, it, afterAll },
  provider: () => providerAt(root),
  reopen: () => providerAt(root),
  commands: posixCommands({ server: 'node' }),
  ...(process.platform === 'linux'
    ? { leftovers: processesOf }
    : { without: { leftovers: 'the check needs /proc, which only Linux has' } }),
})
