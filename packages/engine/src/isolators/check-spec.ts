import { statSync } from 'node:fs'
import { posix } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { missingLayer } from '../images/missing-layer.ts'
import { gatewaySocket, type IsolatorSpec, storedImage, writesToHost } from './isolator.ts'
import { leastLimits, type RuntimeKind } from './oci/launch/runtime.ts'
import type { Privileges } from './oci/privileges/privileges.ts'

/** Rejects an invalid spec early, close to the caller that wrote it. */
export function checkSpec(spec: IsolatorSpec, runtime?: RuntimeKind, privileges?: Privileges['kind']): void {
  const { limits } = spec
  const whole = {
    ...leastLimits(runtime ?? 'crun'),
    ...(limits.tmpBytes === undefined ? {} : { tmpBytes: 4096 }),
    shmBytes: 4096,
    openFiles: 64,
  } as const
  for (const [name, least] of Object.entries(whole)) {
    const value = limits[name as keyof typeof limits]
    if (value === undefined || !Number.isSafeInteger(value) || value < least)
      throw wrong(
        `limits.${name}: at least ${least} is needed${runtime ? ` on ${runtime}` : ''}, got ${value}`,
      )
  }
  if (runtime === 'runsc' && spec.network === 'open')
    throw new SandboxError('unsupported', 'a sandbox on gVisor (runsc) cannot have the network `open`', {
      hint: 'Use a network policy or `none`, or the runtime crun or runc.',
    })
  checkGateway(spec, privileges)
  const { diskBytes } = limits
  if (diskBytes !== undefined && (!Number.isSafeInteger(diskBytes) || diskBytes < MIN_DISK_BYTES))
    throw wrong(`limits.diskBytes: at least ${MIN_DISK_BYTES} is needed, got ${diskBytes}`)
  if (!(limits.cpus >= 0.01 && limits.cpus <= 4096))
    throw wrong(`limits.cpus: 0.01 to 4096 is needed, got ${limits.cpus}`)
  if (!/^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$/.test(spec.hostname))
    throw wrong(`hostname: '${spec.hostname}' is not a valid name`)
  for (const [name, value] of Object.entries(spec.env)) {
    if (name === '' || /[=\0]/.test(name) || value.includes('\0'))
      throw wrong(`env: a name is empty or contains '=', or a name or value contains a NUL byte`)
  }
  checkTarget('workdir', spec.workdir)
  // On the image `host`, /usr is the machine's.
  const elsewhere = [
    ...(limits.tmpBytes === undefined ? [] : ['/tmp']),
    ...(spec.image === 'host' ? ['/usr'] : []),
  ]
  if (elsewhere.some((top) => spec.workdir.startsWith(`${top}/`))) {
    throw wrong(`workdir: ${spec.workdir} is not on the sandbox's disk`)
  }
  for (const { source, target } of spec.mounts) {
    checkTarget('mounts', target)
    if (!source.startsWith('/') || source.includes('\0'))
      throw wrong(`mounts: ${source} is not an absolute path`)
    if (!statSync(source, { throwIfNoEntry: false })) throw wrong(`mounts: ${source} does not exist`)
  }
  if (spec.user === 'root') checkRoot(privileges)
  if (writesToHost(spec)) checkWritable(spec, runtime, privileges)
  checkImage(spec.image)
}

/**
 * Root inside must be an id of its own outside, which Docker and an ordinary account cannot promise, and on the image
 * `host` it needs a `/usr` that it can write to.
 */
function checkRoot(privileges?: Privileges['kind']): void {
  if (privileges === 'root') return
  throw new SandboxError('unsupported', 'sandboxes with the user root need the isolator oci, as root', {
    hint: 'Omit the user, or run the engine as root with the isolator oci.',
  })
}

/**
 * Files that a sandbox writes to the host belong to the folder's owner and never have a set-user-ID bit. Throws where
 * that cannot be enforced.
 */
function checkWritable(
  { mounts }: IsolatorSpec,
  runtime?: RuntimeKind,
  privileges?: Privileges['kind'],
): void {
  const writable = mounts.filter(({ readOnly, asOwner }) => readOnly === false && asOwner)
  if (writable.some(({ source }) => source === '/'))
    throw wrong('mounts: / can be mounted read-only, not writable')
  const why =
    runtime === 'runsc'
      ? 'gVisor (runsc) does not keep a sandbox from making set-user-ID files'
      : privileges === 'range'
        ? 'an ordinary account with subordinate ids cannot map owners, so the files would belong to one of those ids'
        : undefined
  if (why)
    throw new SandboxError('unsupported', `${writable[0]?.source} cannot be mounted writable: ${why}`, {
      hint: {
        sdk: 'Mount it read-only and read results with sandbox.files, or run as root on crun or runc.',
        http: 'Mount it read-only, or run the daemon as root on crun or runc.',
        cli: 'Mount it read-only and copy results out with sandkasten run --out, or run as root on crun or runc.',
      },
    })
}

function checkGateway(spec: IsolatorSpec, privileges?: Privileges['kind']): void {
  const gateway = gatewaySocket(spec)
  if (!gateway) return
  const { socket, owner } = gateway
  if (!socket.startsWith('/') || socket.includes('\0') || Buffer.byteLength(socket) > MAX_SOCKET_PATH)
    throw wrong(`network: ${socket} is not an absolute path of at most ${MAX_SOCKET_PATH} bytes`)
  if (owner && ![owner.uid, owner.gid].every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32))
    throw wrong('network: the owner of the socket is not a user and a group')
  if (owner && privileges !== undefined && privileges !== 'root')
    throw new SandboxError(
      'unsupported',
      'an ordinary account cannot give the gateway’s socket to another user',
      {
        hint: 'Omit network.policy.owner, or run the engine as root.',
      },
    )
}

function checkImage(image: IsolatorSpec['image']): void {
  if (image === 'host') return
  const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory()
  if ('rootfs' in image) {
    if (!isFolder(image.rootfs)) throw wrong(`image: ${image.rootfs} is not a folder`)
    return
  }
  const stored = storedImage(image)
  if (!stored) return
  const { uid, gid } = stored.user
  if (![uid, gid].every((id) => Number.isInteger(id) && id >= 0 && id < 65536) || uid === 0)
    throw wrong(`image: its user ${uid}:${gid} does not exist in a sandbox`)
  const missing = stored.layers.find((layer) => !isFolder(layer))
  if (missing) throw missingLayer(stored, missing)
}

const MAX_SOCKET_PATH = 107

/** The smallest disk with room for a file system and some files. */
const MIN_DISK_BYTES = 8 * 1024 * 1024

/** Paths that the isolator mounts itself. */
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
    throw wrong(`${name}: ${path} is reserved for the sandbox`)
}

const wrong = (message: string) => new SandboxError('invalid_argument', message)
