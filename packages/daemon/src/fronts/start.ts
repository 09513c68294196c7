import { SandboxError } from '@sandkasten/sdk'
import type { FrontName } from '../config/index.ts'
import type { Services } from '../http/services.ts'
import type { Store } from '../store/index.ts'
import type { Front, FrontPlace } from './front.ts'
import { FrontRecords } from './records.ts'
import { buildFront } from './server.ts'

export interface Fronts {
  /** Where each that is configured can be reached. */
  readonly urls: Readonly<Partial<Record<FrontName, string>>>
  /** Their own addresses: never behind a preview. */
  readonly listening: readonly string[]
  close(): Promise<void>
}

/** Every front that the configuration names, listening. */
export async function startFronts(
  fronts: readonly Front[],
  services: Services,
  store: Store['fronts'],
): Promise<Fronts> {
  const urls: Partial<Record<FrontName, string>> = {}
  const listening: string[] = []
  const undo: Array<() => Promise<unknown>> = []
  const close = async () => {
    for (const end of undo.splice(0)) await end()
  }
  try {
    for (const front of fronts) {
      const wanted = services.config.fronts[front.name]
      if (!wanted) continue
      const place: FrontPlace = {
        services,
        records: new FrontRecords(store, front.name),
        get url() {
          return urls[front.name]!
        },
      }
      const app = buildFront(front, place)
      undo.push(() => {
        // Tunnels to ports are no longer the server's, and it would wait for them.
        services.connections.cutAll()
        return app.close()
      })
      const { host, port } = wanted.listen
      const at = await app.listen({ host, port }).catch((cause: NodeJS.ErrnoException) => {
        throw new SandboxError(
          'conflict',
          `The front ${front.name} cannot listen on ${host}:${port} (${cause.code}).`,
          {
            cause,
            hint: `Choose another address with fronts.${front.name}.listen.`,
          },
        )
      })
      urls[front.name] = wanted.url ?? at
      listening.push(at)
      services.log.info({ front: front.name, url: urls[front.name] }, 'front')
    }
    return { urls, listening, close }
  } catch (error) {
    await close()
    throw error
  }
}
