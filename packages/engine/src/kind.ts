/** The engine as a row of the SDK's table of providers: for the registry, bots and brokers. */

import { defineProviderKind, type ProviderContext, type ProviderKind } from '@sandkasten/sdk/auto'
import { type SecretSource, valueIn } from './egress/secrets.ts'
import type { EngineProviderOptions } from './provider/engine-provider.ts'
import { locateRunner } from './provider/locate-runner.ts'
import { type EnginePlace, engineAt } from './provider/place.ts'

/** Options of every engine that the kind makes. `isolator` and `runtime` are its settings. */
export interface EngineKindOptions
  extends EnginePlace,
    Omit<EngineProviderOptions, 'isolator' | 'root' | 'prepareNext'> {
  /** Called if the engine builds the runner first, which takes a while in a fresh clone. */
  readonly onBuild?: () => void
}

/** It needs no settings, so it can be the default provider: `kinds: [engineKind(), ...providerKinds]`. */
export function engineKind({ folder, runFolder, onBuild, ...options }: EngineKindOptions = {}): ProviderKind {
  return defineProviderKind({
    provider: 'engine',
    title: 'this machine, isolated',
    fields: {
      isolator: {
        description: 'oci, docker, or process, which does not isolate (default: the strongest here)',
      },
      runtime: { description: 'for the isolator oci: crun, runc, runsc, or a path (default: crun)' },
    },
    make: ({ isolator, runtime }, context) => {
      // The engine reports a failed build.
      locateRunner({ onBuild }).catch(() => {})
      return engineAt(
        { folder, runFolder },
        {
          ...options,
          // `auto` would fall back to another isolator if the requested runtime is missing.
          isolator: (isolator ??
            (runtime === undefined ? 'auto' : 'oci')) as EngineProviderOptions['isolator'],
          oci: { ...options.oci, ...(runtime !== undefined && { runtime }) },
          prepareNext: false,
          secrets: secretsOf(context, options.secrets),
        },
      )
    },
  })
}

/** Secrets that the registry stores, then those of the options. */
export function secretsOf(
  { secrets: stored }: ProviderContext,
  others: SecretSource | undefined,
): SecretSource | undefined {
  if (!stored) return others
  return async (name, subject) =>
    (await stored(name, { labels: subject.labels })) ?? (others && valueIn(others, name, subject))
}
