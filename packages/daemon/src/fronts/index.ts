import { daytonaFront } from './daytona/index.ts'
import { e2bFront } from './e2b/index.ts'
import type { Front } from './front.ts'
import { opensandboxFront } from './opensandbox/index.ts'
import { vercelFront } from './vercel/index.ts'

export { type Fronts, startFronts } from './start.ts'

/** Every front there is. */
export const allFronts: readonly Front[] = [daytonaFront(), e2bFront, opensandboxFront, vercelFront]
