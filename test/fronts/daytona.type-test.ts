/** The vendor's real SDKs fit the part of them that our provider describes. Never run; `tsc` is its test. */
import type * as current from '@daytona/sdk'
import type * as older from '@daytonaio/sdk'
import type { DaytonaModule } from '@sandkasten/sdk/daytona'

declare const modules: [typeof current, typeof older]
export const fitting: DaytonaModule[] = modules
