import { SandboxError } from '@sandkasten/sdk'
import type { FrontName } from '../config/index.ts'
import type { Services } from '../http/services.ts'
import type { Store } from '../store/index.ts'
import type { FrontFactory, FrontPlace } from './front.ts'
import { FrontRecords } from './records.ts'
import { buildFront } from './server.ts'

export interface Fronts {
  readonly urls: Readonly<Partial<Record<FrontName, string>>>
  /** The addresses of the listeners. Previews never forward to them. */
  readonly listening: readonly string[]
  close(): Promise<void>
}

/** Starts every front that the configuration names. */
export async function startFronts(
  fronts: Readonly<Record<FrontName, FrontFactory>>,
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
    for (const name of Object.keys(fronts) as FrontName[]) {
      const wanted = services.config.fronts[name]
      if (!wanted) continue
      const place: FrontPlace = {
        services,
        records: new FrontRecords(store, name),
        get url() {
          return urls[name]!
        },
      }
      const app = buildFront(name, fronts[name], place)
      undo.push(() => {
        // Closing the server would wait for tunnels forever, because it does not track them.
        services.connections.cutAll()
        return app.close()
      })
      const { host, port } = wanted.listen
      const at = await app.listen({ host, port }).catch((cause: NodeJS.ErrnoException) => {
        throw new SandboxError(
          'conflict',
          `The front ${name} cannot listen on ${host}:${port} (${cause.code}).`,
          {
            cause,
            hint: `Choose another address with fronts.${name}.listen.`,
          },
        )
      })
      urls[name] = wanted.url ?? at
      listening.push(at)
      services.log.info({ front: name, url: urls[name] }, 'front')
    }
    return { urls, listening, close }
  } catch (error) {
    await close()
    throw error
  }
}
