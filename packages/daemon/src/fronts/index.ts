import type { FrontName } from '../config/index.ts'
import { daytonaFront } from './daytona/index.ts'
import { e2bFront } from './e2b/index.ts'
import type { FrontFactory } from './front.ts'
import { opensandboxFront } from './opensandbox/index.ts'
import { vercelFront } from './vercel/index.ts'

export { type Fronts, startFronts } from './start.ts'

export const allFronts: Readonly<Record<FrontName, FrontFactory>> = {
  daytona: daytonaFront,
  e2b: e2bFront,
  opensandbox: opensandboxFront,
  vercel: vercelFront,
}
