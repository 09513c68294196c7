import { SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'

/** Translates an error of the daemon, or of the connection to it, by status or errno, with a hint. */
export function translate(
  cause: unknown,
  doing: string,
  context: { where: string; sandboxId?: string; image?: string },
): SandboxError {
  if (SandboxError.is(cause)) return cause
  const { where, sandboxId, image } = context
  const error = (code: SandboxErrorCode, message: string, hint?: string) =>
    new SandboxError(code, message, {
      cause,
      sandboxId,
      hint,
    })
  const status = statusOf(cause)
  const said = messageOf(cause)
  if (status === undefined) {
    const errno = (cause as NodeJS.ErrnoException).code
    if (errno === 'EACCES' || errno === 'EPERM')
      return error(
        'unavailable',
        `${doing}: this account has no access to ${where}.`,
        'Add the account to the group that owns the socket (`sudo usermod -aG docker $USER`, then log in again), or run as root.',
      )
    return error(
      'unavailable',
      `${doing}: no Docker daemon answers on ${where} (${errno ?? said}).`,
      'Start the daemon (`systemctl start docker` or `systemctl start podman.socket`), or set DOCKER_HOST or the option docker.socketPath.',
    )
  }
  if (status === 404 && image !== undefined)
    return error(
      'not_found',
      `${doing}: the daemon has no image “${image}”.`,
      `Run: docker pull ${image}. Or set docker.pull to true.`,
    )
  // The daemon has no status for a full disk, so match the kernel's messages for ENOSPC and EDQUOT.
  if (/no space left on device|disk quota exceeded/i.test(said))
    return error(
      'disk_full',
      `${doing}: the daemon’s disk is full.`,
      'Free space there; `docker system df` shows what uses it.',
    )
  const code = codes[status] ?? (status >= 500 ? 'provider_error' : 'internal')
  return error(code, `${doing}: ${said}`)
}

export function statusOf(cause: unknown): number | undefined {
  const { statusCode, json } = cause as { statusCode?: unknown; json?: { cause?: unknown } | null }
  if (typeof statusCode !== 'number') return undefined
  // Podman answers 500 for objects that disappear during the request. Its `cause` is one of a fixed set of names.
  return (statusCode === 500 && podmanCauses[String(json?.cause)]) || statusCode
}

/** Whether Podman could not remove a disk because another process still unmounts it. */
export function isBusy(cause: unknown): boolean {
  return (cause as { json?: { cause?: unknown } | null }).json?.cause === 'device or resource busy'
}

const podmanCauses: Readonly<Record<string, number>> = {
  'no such container': 404,
  'no such image': 404,
  'image not known': 404,
  'container state improper': 409,
}

/** The daemon's message, without the client's prefix. */
function messageOf(cause: unknown): string {
  const { json, message } = cause as { json?: { message?: unknown; cause?: unknown }; message?: string }
  const said = json?.message ?? json?.cause
  return (typeof said === 'string' ? said : String(message ?? cause)).trim()
}

const codes: Readonly<Record<number, SandboxErrorCode>> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
  503: 'unavailable',
}
