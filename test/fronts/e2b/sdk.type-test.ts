/** Checks that the vendor's SDK matches the types of our provider. Never run; `tsc` is the test. */
import type * as vendor from 'e2b'
import type { E2BSdk } from '../../../packages/sdk/src/providers/e2b/sdk.ts'

export const fits = (sdk: typeof vendor): E2BSdk => sdk
