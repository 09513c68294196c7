import type {
  VolumeInfo as ClientVolumeInfo,
  CreateSessionOptions,
  SandboxClient,
} from '../../client/index.ts'
import { SandboxError } from '../../errors.ts'
import type { VolumeAdmin, VolumeInfo, VolumeMount } from '../../spec/index.ts'

/** The project's volumes on the daemon. */
export function volumesOf(client: SandboxClient): VolumeAdmin {
  return {
    create: async (name, options) => volumeInfo(await client.createVolume(name, options)),
    get: async (name, options) => volumeInfo(await client.getVolume(name, options)),
    list: async (options) => (await client.listVolumes(options)).map(volumeInfo),
    remove: (name, options) => client.deleteVolume(name, options),
  }
}

/** Takes `volumes` out of `providerOptions`; the other options are fields of the API's request. */
export function withVolumes(
  providerOptions: Readonly<Record<string, unknown>> | undefined,
): Pick<CreateSessionOptions, 'volumes' | 'extra'> {
  const { volumes, ...extra } = providerOptions ?? {}
  if (volumes === undefined) return { extra: providerOptions }
  if (!Array.isArray(volumes)) throw invalid('must be a list')
  return { extra, volumes: volumes.map(mountOf) }
}

function mountOf(mount: VolumeMount) {
  const { name, target, readOnly = false } = mount ?? {}
  if (typeof name !== 'string' || typeof target !== 'string' || typeof readOnly !== 'boolean')
    throw invalid('needs a name and a target')
  return { name, path: target, readOnly }
}

function invalid(what: string): SandboxError {
  return new SandboxError('invalid_argument', `providerOptions.volumes ${what}.`, {
    provider: 'daemon',
    hint: "Use { name: 'data', target: '/data', readOnly: true }.",
  })
}

function volumeInfo({ name, createdAt, sizeBytes, limitMb, writerSessionId }: ClientVolumeInfo): VolumeInfo {
  return { name, createdAt, sizeBytes, limitMb, writer: writerSessionId }
}
