import type * as vendor from 'e2b'
import type { E2BSdk } from '../../packages/sdk/src/providers/e2b/sdk.ts'

/** The real SDK has what the provider calls, and takes what it is given. */
export const fits = (sdk: typeof vendor): E2BSdk => sdk
