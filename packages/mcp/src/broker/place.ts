import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/** Files of the broker, in a folder that only its user may open. */
export interface BrokerPlace {
  readonly folder: string
  readonly socket: string
  /** What tokens open, by hash. */
  readonly handles: string
  /** Saved tokens, for agents of the same user. */
  readonly tokens: string
  /** The process id of the broker. */
  readonly pid: string
  readonly log: string
}

/** `data` is the registry’s folder. */
export function brokerPlace(data: string): BrokerPlace {
  const folder = path.join(data, 'mcp')
  const inFolder = (name: string) => path.join(folder, name)
  return {
    folder,
    socket: inFolder('broker.sock'),
    handles: inFolder('handles'),
    tokens: inFolder('tokens'),
    pid: inFolder('broker.pid'),
    log: inFolder('broker.log'),
  }
}

export async function createPlace(place: BrokerPlace): Promise<void> {
  // The kernel cuts longer names off, or refuses them.
  if (Buffer.byteLength(place.socket) > 90)
    throw new SandboxError(
      'invalid_argument',
      `The path of the broker’s socket is too long: ${place.socket}`,
      {
        hint: 'Set SANDKASTEN_HOME to a shorter path.',
      },
    )
  for (const folder of [place.folder, place.handles, place.tokens])
    await mkdir(folder, { recursive: true, mode: 0o700 })
}
