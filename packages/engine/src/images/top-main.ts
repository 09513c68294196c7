/** The process of `top-process.ts`: a question on standard input, an answer on standard output. */
import { readFileSync, writeSync } from 'node:fs'
import { translate } from '@sandkasten/sdk/internal'
import { makeTop } from './top.ts'
import type { TopAnswer, TopQuestion } from './top-process.ts'

function answer(): TopAnswer {
  try {
    const { layers, document } = JSON.parse(readFileSync(0, 'utf8')) as TopQuestion
    const views = layers.map(({ folder, opaque }) => ({ folder, opaque: new Set(opaque) }))
    const { config, entries } = makeTop(views, document)
    return {
      config,
      entries: entries.map(({ content, ...entry }) => ({
        ...entry,
        ...(content === undefined ? {} : { content: content.toString('base64') }),
      })),
    }
  } catch (error) {
    const { code, message, hints } = translate(error, 'The image’s layers could not be looked at')
    return { error: { code, message, hints } }
  }
}

const text = Buffer.from(JSON.stringify(answer()))
for (let written = 0; written < text.length; ) written += writeSync(1, text, written)
