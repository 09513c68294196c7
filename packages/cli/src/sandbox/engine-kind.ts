import { locateRunner } from '@sandkasten/engine'
import { defineProviderKind, type ProviderKind } from '@sandkasten/sdk/auto'
import { type EnginePlace, engineAt } from '../engine-place.ts'
import { say } from '../errors.ts'

type Isolator = NonNullable<Parameters<typeof engineAt>[1]['isolator']>

/** The engine as a row of the SDK's table of providers. It needs no settings, so it is the default provider. */
export function engineKind(place: EnginePlace): ProviderKind {
  return defineProviderKind({
    provider: 'engine',
    title: 'this machine, isolated',
    fields: {
      isolator: {
        description: 'oci, docker, or process, which does not isolate (default: the strongest here)',
      },
      runtime: { description: 'for the isolator oci: crun, runc, runsc, or a path (default: crun)' },
    },
    make: ({ isolator, runtime }, { secrets }) => {
      // In a fresh clone the engine builds the runner first, which takes a while. The engine reports a failed build.
      locateRunner({ onBuild: () => say('sandkasten: building the runner, once…') }).catch(() => {})
      return engineAt(place, {
        // `auto` would fall back to another isolator if the requested runtime is missing.
        isolator: (isolator ?? (runtime === undefined ? 'auto' : 'oci')) as Isolator,
        oci: { runtime },
        prepareNext: false,
        // Stored secrets first, then variables of this process.
        secrets: async (name, { labels }) => (await secrets?.(name, { labels })) ?? process.env[name],
        onWarning: (message) => console.error(`sandkasten: ${message}`),
      })
    },
  })
}
