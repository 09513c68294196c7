import { fetchedTool } from '../../../images/testing/tools.ts'
import type { RuntimeKind } from '../launch/runtime.ts'

/** The program that the tests use: of gVisor's the one that `scripts/prepare.ts` has fetched, where it has. */
export function testedRuntime(kind: RuntimeKind): string {
  return (kind === 'runsc' ? fetchedTool('runsc') : undefined) ?? kind
}
