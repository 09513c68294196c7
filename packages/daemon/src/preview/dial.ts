import { type ClientRequest, request } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { ReachedPort } from '../ports/index.ts'

/**
 * Delays the error that nothing listens on a port. Public ports need no key, so a client that retries without a pause
 * would keep the daemon busy.
 */
const refusedMs = 100
/** Errors that are passed on unchanged, because they explain the failure. */
const toldAsTheyAre = ['not_running', 'interrupted', 'not_found', 'gone', 'rate_limited'] as const

/**
 * Opens a request to the sandbox's port, without sending it. Each request has its own connection, so leftover bytes of
 * one response cannot be read as the beginning of the next. The caller destroys the stream.
 */
export async function dial(
  port: ReachedPort,
  { method, path, headers }: { method: string; path: string; headers: readonly string[] },
): Promise<{ outgoing: ClientRequest; stream: Duplex }> {
  const stream = await port.connect().catch(async (error: unknown) => {
    if (SandboxError.is(error, ...toldAsTheyAre)) throw error
    await sleep(refusedMs)
    throw dialError(error, port.port)
  })
  // The request reports errors while it lasts; later ones do not matter.
  stream.on('error', () => {})
  try {
    const outgoing = request({
      method,
      path,
      headers: [...headers, ...Object.entries(port.headers).flat()],
      createConnection: () => stream,
      setHost: false,
      insecureHTTPParser: false,
    })
    return { outgoing, stream }
  } catch (error) {
    stream.destroy()
    throw error
  }
}

/** Translates a failed connection to the sandbox. */
export function dialError(cause: unknown, port: number): SandboxError {
  const { code = '' } = cause as NodeJS.ErrnoException
  if (code.startsWith('HPE_'))
    return new SandboxError(
      'provider_error',
      `The server on port ${port} of the sandbox does not speak HTTP.`,
      {
        cause,
        hint: 'Check the port number.',
      },
    )
  return new SandboxError('connection_lost', `Nothing answers on port ${port} of the sandbox.`, {
    cause,
    hint: 'Start a server there, on 127.0.0.1 or on all addresses, and try again.',
  })
}
