import type { SandboxFiles } from '@sandkasten/sdk'
import { concat } from '@sandkasten/sdk/provider'
import { z } from 'zod'
import { count, inSandbox, pathInput } from './inputs.ts'
import { limits } from './limits.ts'
import { isText, mimeTypeOf } from './media.ts'
import { shownName, sizeText } from './text.ts'
import { defineTool, failure, type ToolResult, textResult } from './tool.ts'

export const readFile = defineTool({
  name: 'read_file',
  title: 'Read file',
  description:
    'Read a file in the sandbox. Returns a long text file in parts: pass startLine to go on. Images are returned as images, other binary files as they are.',
  input: z.object({
    path: pathInput('Absolute, or relative to the project folder.'),
    startLine: count(1e9, 'The first line to return, counted from 1. Default 1.').optional(),
    lineCount: count(100_000, 'The number of lines. Default: as many as fit.').optional(),
  }),
  readOnly: true,
  workMs: () => limits.callMs,
  async run({ path: given, startLine, lineCount }, { use }) {
    return use(async (sandbox) => {
      const { handle, signal } = sandbox
      const path = inSandbox(sandbox, given)
      const file: File = { files: handle.files, path, name: shownName(given), signal }
      const head = await bytesOf(file, sniffBytes)
      if (isText(head)) return readText(file, { startLine, lineCount })
      return readBinary(file, mimeTypeOf(head))
    })
  },
})

interface File {
  readonly files: SandboxFiles
  readonly path: string
  readonly name: string
  readonly signal: AbortSignal
}

const sniffBytes = 8_192

async function readText(
  { files, path, name, signal }: File,
  { startLine = 1, lineCount }: { startLine?: number; lineCount?: number },
): Promise<ToolResult> {
  const wanted = Math.min(lineCount ?? limits.resultLines, limits.resultLines)
  const { lines, more, totalLines, cutLines } = await files.readLines(path, {
    startLine,
    endLine: startLine + wanted - 1,
    maxLineBytes: limits.resultBytes,
    maxBytes: 1024 ** 3,
    signal,
  })
  if (lines.length === 0)
    return totalLines === 0
      ? textResult(`(${name} is empty)`)
      : failure(`${name} has only ${totalLines ?? 'fewer'} lines.`)
  const shown: string[] = []
  let size = 0
  for (const line of lines) {
    const bytes = Buffer.byteLength(line) + 1
    if (shown.length > 0 && size + bytes > limits.resultBytes) break
    shown.push(line)
    size += bytes
  }
  const end = startLine - 1 + shown.length
  const isAll = startLine === 1 && shown.length === lines.length && !more
  const cut = cutLines.filter((number) => number <= end).slice(0, 5)
  const notes = [
    !isAll && `lines ${startLine} to ${end}${totalLines === undefined ? '' : ` of ${totalLines}`}`,
    (more || shown.length < lines.length) && `pass startLine: ${end + 1} to go on`,
    cut.length > 0 && `only the beginning of long lines: ${cut.join(', ')}`,
  ].filter((note) => typeof note === 'string')
  const text = shown.join('\n')
  return textResult(notes.length === 0 ? text : `${text}\n[${notes.join('; ')}]`)
}

async function readBinary(file: File, mimeType: string): Promise<ToolResult> {
  const isImage = mimeType.startsWith('image/')
  const max = isImage ? limits.imageBytes : limits.binaryBytes
  const { size } = await file.files.stat(file.path, { signal: file.signal })
  const what = `${file.name} (${mimeType}, ${sizeText(size)})`
  if (size > max)
    return failure(`${what} is larger than ${sizeText(max)}. Inspect or convert it with run_command.`)
  const data = Buffer.from(await bytesOf(file, max)).toString('base64')
  const about = { type: 'text', text: what } as const
  if (isImage) return { content: [about, { type: 'image', data, mimeType }] }
  const uri = `sandbox://${encodeURI(file.path)}`
  return { content: [about, { type: 'resource', resource: { uri, mimeType, blob: data } }] }
}

async function bytesOf({ files, path, signal }: File, end: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of await files.readStream(path, { start: 0, end, signal })) {
    chunks.push(chunk)
    size += chunk.byteLength
    // The stream comes from the sandbox, and may ignore the range.
    if (size >= end) break
  }
  return concat(chunks).subarray(0, end)
}
