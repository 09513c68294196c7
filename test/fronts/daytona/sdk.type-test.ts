/** Checks that the vendor's SDKs match the types of our provider. Never run; `tsc` is the test. */
import type * as current from '@daytona/sdk'
import type * as older from '@daytonaio/sdk'
import type { DaytonaModule } from '@sandkasten/sdk/daytona'

declare const modules: [typeof current, typeof older]
export const fitting: DaytonaModule[] = modules
