import { fetchedTool } from '../../../images/testing/tools.ts'
import type { RuntimeKind } from '../launch/runtime.ts'

/** The runtime that the tests use. For gVisor, the version that `scripts/prepare.ts` downloaded, if it exists. */
export function testedRuntime(kind: RuntimeKind): string {
  return (kind === 'runsc' ? fetchedTool('runsc') : undefined) ?? kind
}
