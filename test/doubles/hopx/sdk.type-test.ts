/** Checks that the vendor's SDK matches the types of our provider. Never run; `tsc` is the test. */
import type * as vendor from '@hopx-ai/sdk'
import type { HopxModule } from '@sandkasten/sdk/hopx'

declare const module: typeof vendor
export const fitting: HopxModule = module
