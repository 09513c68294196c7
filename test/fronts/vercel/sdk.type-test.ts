/** Checks that the vendor's SDK matches the types of our provider. Never run; `tsc` is the test. */
import type * as real from '@vercel/sandbox'
import { expectTypeOf } from 'vitest'
import type {
  VendorSandbox,
  VendorSession,
  VercelSdk,
} from '../../../packages/sdk/src/providers/vercel/sdk.ts'

expectTypeOf<real.Sandbox>().toExtend<VendorSandbox>()
expectTypeOf<real.Session>().toExtend<VendorSession>()
expectTypeOf<Awaited<ReturnType<typeof real.Sandbox.get>>>().toExtend<VendorSandbox>()
expectTypeOf<Awaited<ReturnType<typeof real.Snapshot.get>>>().toExtend<
  Awaited<ReturnType<VercelSdk['Snapshot']['get']>>
>()
expectTypeOf<Awaited<ReturnType<typeof real.Sandbox.list>>>().toExtend<
  Awaited<ReturnType<VercelSdk['Sandbox']['list']>>
>()
expectTypeOf<Awaited<ReturnType<typeof real.Snapshot.list>>>().toExtend<
  Awaited<ReturnType<VercelSdk['Snapshot']['list']>>
>()
