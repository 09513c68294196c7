/** The process that `top-layer.ts` starts. Reads a request from standard input and writes the answer to standard output. */
import { readFileSync, writeSync } from 'node:fs'
import { translate } from '@sandkasten/sdk/internal'
import { topLayerContents } from './contents.ts'
import type { TopLayerRequest, TopLayerResponse } from './top-layer.ts'

function answer(): TopLayerResponse {
  try {
    const { layers, document } = JSON.parse(readFileSync(0, 'utf8')) as TopLayerRequest
    const views = layers.map(({ folder, opaque }) => ({ folder, opaque: new Set(opaque) }))
    const { config, entries } = topLayerContents(views, document)
    return {
      config,
      entries: entries.map(({ content, ...entry }) => ({
        ...entry,
        content: content?.toString('base64'),
      })),
    }
  } catch (error) {
    const { code, message, hints } = translate(error, 'Cannot read the image’s layers')
    return { error: { code, message, hints } }
  }
}

const text = Buffer.from(JSON.stringify(answer()))
for (let written = 0; written < text.length; ) written += writeSync(1, text, written)
