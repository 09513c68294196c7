import { statSync } from 'node:fs'
import { posix } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { IsolatorSpec } from '../isolator.ts'

/** Refuses what would be misunderstood later, further from whoever wrote it. */
export function checkSpec(spec: IsolatorSpec): void {
  const { limits } = spec
  const whole = {
    memoryBytes: 8 * 1024 * 1024,
    pids: 8,
    tmpBytes: 4096,
    shmBytes: 4096,
    openFiles: 64,
  } as const
  for (const [name, least] of Object.entries(whole)) {
    const value = limits[name as keyof typeof whole]
    if (!Number.isSafeInteger(value) || value < least)
      throw wrong(`limits.${name}: at least ${least} is needed, not ${value}`)
  }
  if (!(limits.cpus >= 0.01 && limits.cpus <= 4096))
    throw wrong(`limits.cpus: 0.01 to 4096 is needed, not ${limits.cpus}`)
  if (!/^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$/.test(spec.hostname))
    throw wrong(`hostname: '${spec.hostname}' is none`)
  for (const [name, value] of Object.entries(spec.env)) {
    if (name === '' || /[=\0]/.test(name) || value.includes('\0'))
      throw wrong(`env: a name with '=' or a NUL byte`)
  }
  checkTarget('workdir', spec.workdir)
  if (['/tmp', '/usr'].some((top) => spec.workdir.startsWith(`${top}/`))) {
    throw wrong(`workdir: ${spec.workdir} is not on the sandbox's disk`)
  }
  for (const { source, target } of spec.mounts) {
    checkTarget('mounts', target)
    if (!source.startsWith('/') || source.includes('\0'))
      throw wrong(`mounts: ${source}: an absolute path is needed`)
    if (!statSync(source, { throwIfNoEntry: false })) throw wrong(`mounts: ${source} does not exist`)
  }
  const { image } = spec
  if (image === 'host' || !('rootfs' in image)) return
  if (!statSync(image.rootfs, { throwIfNoEntry: false })?.isDirectory())
    throw wrong(`image: ${image.rootfs} is not a folder`)
}

/** Places that are the wall's own. */
const RESERVED = ['/proc', '/dev', '/sys', '/run', '/etc']

function checkTarget(name: string, path: string): void {
  if (
    posix.normalize(path) !== path ||
    !path.startsWith('/') ||
    path === '/' ||
    path.endsWith('/') ||
    path.includes('\0')
  ) {
    throw wrong(`${name}: '${path}' is not a plain absolute path`)
  }
  if (RESERVED.some((top) => path === top || path.startsWith(`${top}/`)))
    throw wrong(`${name}: ${path} is the sandbox's own`)
}

const wrong = (message: string) => new SandboxError('invalid_argument', message)
