import { SandboxError } from '@sandkasten/sdk'

/** Safe in a URL's path, in a file name and in a shell. */
export const volumeName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** Thrown for volumes of other projects, too: a caller cannot tell them from missing ones. */
export function noVolume(name: string): SandboxError {
  return new SandboxError('not_found', `There is no volume ${JSON.stringify(name)}.`, {
    details: { volume: name },
    hint: {
      sdk: 'List volumes with listVolumes(), or create it with createVolume().',
      http: 'See GET /v1/volumes, or create it with POST /v1/volumes.',
      cli: 'See sandkasten volumes list, or create it with sandkasten volumes create.',
    },
  })
}

export function lostVolume(name: string): SandboxError {
  return new SandboxError('not_found', `The content of the volume ${JSON.stringify(name)} is missing.`, {
    details: { volume: name },
    hint: 'Restore the engine’s folder from a backup and restart the daemon, or delete the volume.',
  })
}
