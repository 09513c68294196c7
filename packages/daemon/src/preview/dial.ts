import { type ClientRequest, request } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { ReachedPort } from '../ports/index.ts'

/**
 * The delay of the answer that nothing listens on a port. Such visits may need no key: without a delay, a client that
 * tries port after port would keep the daemon busy.
 */
const refusedMs = 100
/** Failures to connect that say more than that nothing listens there. */
const toldAsTheyAre = ['not_running', 'interrupted', 'not_found', 'gone', 'rate_limited'] as const

/**
 * A request to the sandbox's port, its head given and nothing sent yet. Each has a connection of its own: what one
 * response leaves on a connection is never taken for the beginning of the next one's. The caller destroys the stream.
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
      `What listens on port ${port} of the sandbox does not speak HTTP.`,
      {
        cause,
        hint: 'Is it the right port?',
      },
    )
  return new SandboxError('connection_lost', `Nothing answers on port ${port} of the sandbox.`, {
    cause,
    hint: 'Start a server there, on 127.0.0.1 or on all addresses, and try again.',
  })
}
