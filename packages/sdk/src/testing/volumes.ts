import { randomId } from '../shared/ids.ts'
import type { CreateVolumeOptions, VolumeAdmin, VolumeInfo, VolumeMount } from '../spec/index.ts'
import { volumeBehaviours } from './behaviours/volumes.ts'
import type { TestRunner } from './conformance.ts'
import type { AnyProvider, AnySandbox } from './types.ts'

/** A provider with volumes. Volumes are not part of the contract, so they have a kit of their own. */
export type VolumesUnderTest = AnyProvider & { readonly volumes: VolumeAdmin }

export interface VolumeConformanceOptions {
  provider: () => VolumesUnderTest | Promise<VolumesUnderTest>
  /** False: `limitMb` must throw `unsupported`. */
  canLimit: boolean
}

/** One observable behaviour of volumes. */
export interface VolumeBehaviour {
  readonly id: string
  /** A sentence about what a user observes. */
  readonly name: string
  run(trial: VolumeTrial): Promise<void>
}

/** The context of one run of a behaviour. `cleanUp` removes what was created through it. */
export class VolumeTrial {
  readonly provider: AnyProvider
  readonly volumes: VolumeAdmin
  readonly canLimit: boolean
  readonly #sandboxes: AnySandbox[] = []
  readonly #names: string[] = []

  constructor(provider: VolumesUnderTest, canLimit: boolean) {
    this.provider = provider
    this.volumes = provider.volumes
    this.canLimit = canLimit
  }

  async volume(options: CreateVolumeOptions & { name?: string } = {}): Promise<VolumeInfo> {
    const { name = `kit-${randomId(10)}`, ...rest } = options
    const volume = await this.volumes.create(name, rest)
    this.#names.push(name)
    return volume
  }

  async mounting(...volumes: VolumeMount[]): Promise<AnySandbox> {
    return this.adopt(await this.provider.create({ providerOptions: { volumes } }))
  }

  /** Destroys the sandbox afterwards. */
  adopt(sandbox: AnySandbox): AnySandbox {
    this.#sandboxes.push(sandbox)
    return sandbox
  }

  async sh(sandbox: Pick<AnySandbox, 'runCommand'>, script: string): Promise<string> {
    const { stdout, stderr } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', script] })
    return (stdout + stderr).trim()
  }

  async cleanUp(): Promise<void> {
    for (const { sandboxId } of this.#sandboxes.splice(0)) await this.provider.destroy(sandboxId)
    for (const name of this.#names.splice(0)) await this.volumes.remove(name)
  }
}

/** Registers every behaviour of volumes as a test. */
export function volumeConformance(
  options: VolumeConformanceOptions & { runner: TestRunner; title?: string },
): void {
  let provider: Promise<VolumesUnderTest> | undefined
  options.runner.describe(options.title ?? 'volumes', () => {
    for (const behaviour of volumeBehaviours)
      options.runner.it(behaviour.name, async () => {
        provider ??= Promise.resolve(options.provider())
        await runVolumeBehaviour(behaviour, await provider, options.canLimit)
      })
  })
}

/** Rejects if the provider does not show the behaviour. */
export async function runVolumeBehaviour(
  behaviour: VolumeBehaviour,
  provider: VolumesUnderTest,
  canLimit: boolean,
): Promise<void> {
  const trial = new VolumeTrial(provider, canLimit)
  try {
    await behaviour.run(trial)
  } finally {
    await trial.cleanUp()
  }
}
