import { InvalidArgumentError } from 'commander'

export interface VolumeMount {
  name: string
  path: string
  read_only: boolean
}

/** Parses `name:/path`, `name:/path:ro` and `name:/path:rw`. */
export function parseVolumeMount(text: string, before: readonly VolumeMount[] = []): VolumeMount[] {
  const [name, path, mode, ...rest] = text.split(':')
  if (!name || !path?.startsWith('/') || rest.length > 0)
    throw new InvalidArgumentError('Use name:/path or name:/path:ro, such as data:/data.')
  if (mode !== undefined && mode !== 'ro' && mode !== 'rw')
    throw new InvalidArgumentError(`Unknown mode "${mode}": use ro (read-only) or rw (writable).`)
  return [...before, { name, path, read_only: mode === 'ro' }]
}

export function volumeMountText({ name, path, read_only }: VolumeMount): string {
  return `${name}:${path}${read_only ? ':ro' : ''}`
}
