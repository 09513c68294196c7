import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { SandboxError } from '@sandkasten/sdk'
import type { ConfigDocument } from '../import/manifest.ts'
import type { ImagePlaces } from '../places.ts'
import { type TopLayer, topLayerContents } from './contents.ts'
import type { LayerView } from './lookup.ts'

/**
 * Computes the layer on top of an image. An account cannot read every folder of its layers and sees other owners than
 * a sandbox does. So a process with the right permissions computes it.
 */
export async function topLayerOf(
  { rights, runner }: ImagePlaces,
  layers: readonly LayerView[],
  document: ConfigDocument,
): Promise<TopLayer> {
  if (!rights) return topLayerContents(layers, document)
  const source = import.meta.url.endsWith('.ts')
  const main = fileURLToPath(new URL(source ? './worker.ts' : './worker.js', import.meta.url))
  const node = [process.execPath, ...(source ? ['--conditions=sandkasten-source'] : []), main] as const
  const [program, ...args] = rights.asSandboxes(await runner(), ...node)
  const asked = promisify(execFile)(program, args, { env: {}, cwd: '/', maxBuffer: 16 * 1024 * 1024 })
  const question: TopLayerRequest = {
    layers: layers.map(({ folder, opaque }) => ({ folder, opaque: [...opaque] })),
    document,
  }
  // A worker that ended early reports its error through its exit.
  asked.child.stdin!.on('error', () => {})
  asked.child.stdin!.end(JSON.stringify(question))
  const { stdout } = await asked.catch((cause) => {
    throw new SandboxError('internal', 'Cannot read the image’s layers.', { cause })
  })
  const answer = JSON.parse(stdout) as TopLayerResponse
  if ('error' in answer)
    throw new SandboxError(answer.error.code, answer.error.message, { hint: answer.error.hints })
  const entries = answer.entries.map(({ content, ...entry }) => ({
    ...entry,
    content: content === undefined ? undefined : Buffer.from(content, 'base64'),
  }))
  return { config: answer.config, entries }
}

export interface TopLayerRequest {
  readonly layers: readonly { readonly folder: string; readonly opaque: readonly string[] }[]
  readonly document: ConfigDocument
}

/** Contents in base64. */
export type TopLayerResponse =
  | {
      readonly config: TopLayer['config']
      readonly entries: readonly (Omit<TopLayer['entries'][number], 'content'> & {
        readonly content?: string
      })[]
    }
  | { readonly error: Pick<SandboxError, 'code' | 'message' | 'hints'> }
