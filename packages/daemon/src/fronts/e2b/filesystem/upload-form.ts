import type { IncomingMessage } from 'node:http'
import { eachPart } from '../../shared/multipart.ts'

/** Reads the files of a form one after another, as streams. */
export function eachFile(
  payload: IncomingMessage,
  idleMs: number,
  take: (name: string | undefined, content: AsyncIterable<Uint8Array>) => Promise<void>,
): Promise<void> {
  const file = (_: string, content: AsyncIterable<Uint8Array>, name: string | undefined) =>
    take(unescaped(name), content)
  return eachPart(payload, { file }, { idleMs, fieldBytes: 65_536, files: 10_000 })
}

/** Reverts the escaping of quotes and line breaks that browsers apply to file names. */
function unescaped(name: string | undefined): string | undefined {
  return name?.replace(/%(22|0D|0A)/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}
