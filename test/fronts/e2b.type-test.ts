import type * as vendor from 'e2b'
import type { E2BSdk } from '../../packages/sdk/src/providers/e2b/sdk.ts'

/** Checks that the real SDK has the methods and options that the provider uses. */
export const fits = (sdk: typeof vendor): E2BSdk => sdk
