/** A program on the interface, whose cost `compile-cost.test.ts` measures. Never run. */
import type { Capabilities, SandboxHandle, SandboxProvider } from '../../packages/sdk/src/spec/index.ts'

declare const bare: SandboxProvider<{ readonly stop: 'native' }>
declare const cloud: SandboxProvider<{ readonly stop: 'native'; readonly snapshot: 'native' }>
declare const engine: SandboxProvider<{ readonly pause: 'native'; readonly fork: 'emulated' }>

export const providers: SandboxProvider[] = [bare, cloud, engine]

export async function handles(): Promise<SandboxHandle[]> {
  await (await cloud.create()).snapshot()
  // @ts-expect-error only the engine can pause
  await (await cloud.create()).pause()
  return [await bare.create(), await cloud.get('x'), await engine.getOrCreate({ name: 'x' })]
}

export function generic<C extends Capabilities>(provider: SandboxProvider<C>): SandboxProvider {
  return provider
}
