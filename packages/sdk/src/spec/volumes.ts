import type { CallOptions } from './common.ts'

/**
 * A folder that outlives the sandboxes that mount it. Providers with volumes have an object `volumes` of this type, and
 * take mounts as `providerOptions.volumes` of `create`.
 */
export interface VolumeInfo {
  readonly name: string
  readonly createdAt: Date
  /** The disk space that the volume uses. Undefined in lists where measuring means reading the whole volume. */
  readonly sizeBytes?: number
  /** The most that the volume can hold. Undefined: no limit. */
  readonly limitMb?: number
  /** The sandbox that may write to it now. */
  readonly writer?: string
}

export interface CreateVolumeOptions extends CallOptions {
  /** The most that the volume can hold. Throws `unsupported` where volumes cannot be limited. */
  readonly limitMb?: number
}

export interface VolumeAdmin {
  /** Throws `conflict` if the volume exists. */
  create(name: string, options?: CreateVolumeOptions): Promise<VolumeInfo>
  /** Throws `not_found`. */
  get(name: string, options?: CallOptions): Promise<VolumeInfo>
  list(options?: CallOptions): Promise<VolumeInfo[]>
  /**
   * Removes the volume and its content. Returns false if it does not exist. Throws `conflict` while any sandbox, even a
   * stopped one, mounts it.
   */
  remove(name: string, options?: CallOptions): Promise<boolean>
}

/** One entry of `providerOptions.volumes`. */
export interface VolumeMount {
  readonly name: string
  /** An absolute path in the sandbox. */
  readonly target: string
  /** Default false. One sandbox at a time may write; any number may read. */
  readonly readOnly?: boolean
}
