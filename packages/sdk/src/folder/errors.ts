import { type Hints, SandboxError, type SandboxErrorCode } from '../errors.ts'

/** Maps the operating system's error codes to ours. */
const codes: Readonly<Record<string, SandboxErrorCode>> = {
  ENOENT: 'file_not_found',
  EEXIST: 'file_exists',
  ENOTDIR: 'not_a_directory',
  EISDIR: 'is_a_directory',
  ERR_FS_EISDIR: 'is_a_directory',
  ENOTEMPTY: 'directory_not_empty',
  EACCES: 'permission_denied',
  EPERM: 'permission_denied',
  EROFS: 'permission_denied',
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EFBIG: 'disk_full',
  ENAMETOOLONG: 'invalid_argument',
  ELOOP: 'invalid_argument',
  EINVAL: 'invalid_argument',
  E2BIG: 'invalid_argument',
  EMFILE: 'unavailable',
  ENFILE: 'unavailable',
  EAGAIN: 'unavailable',
  ENOMEM: 'unavailable',
}

const elsewhere = (hint: string) => ({ http: hint, cli: hint })

const hints: Readonly<Record<string, string | Hints>> = {
  ENOSPC: {
    sdk: 'Free space, or inodes (df -i), on the disk that holds the provider’s `root`, or choose a `root` on another disk.',
    ...elsewhere('Free space, or inodes (df -i), on the disk that holds the sandboxes.'),
  },
  EROFS: {
    sdk: 'The file system is mounted read-only: mount it writable, or choose a `root` on another disk.',
    ...elsewhere('The file system is mounted read-only: choose another path, or mount it writable.'),
  },
  EDQUOT: {
    sdk: 'This account’s disk quota is used up; free space, or choose another `root`.',
    ...elsewhere('The disk quota of the account is used up: free space.'),
  },
  EUCLEAN: 'The file system is damaged: repair it with fsck, or restore it from a backup.',
  EMFILE: 'This process has too many open files; raise `ulimit -n`, or run fewer commands at once.',
  EAGAIN: 'The system cannot start another process; raise `ulimit -u`, or run fewer commands at once.',
  ELOOP: 'The symbolic links in the path form a cycle.',
  ENAMETOOLONG: 'File names may have at most 255 bytes.',
  E2BIG: 'The arguments and environment are too long for one command; pass the data through stdin or a file.',
}

export function errnoOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/** Translates a failed system call; a SandboxError stays unchanged. `what` is the subject of the message. */
export function translate(error: unknown, what: string): SandboxError {
  if (SandboxError.is(error)) return error
  const errno = errnoOf(error)
  const code = (errno && codes[errno]) || 'internal'
  const hint = errno && hints[errno]
  return new SandboxError(code, `${what}: ${errno ?? String(error)}.`, {
    cause: error,
    details: errno ? { errno } : undefined,
    hint: hint || undefined,
  })
}

export async function guarded<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw translate(error, what)
  }
}
