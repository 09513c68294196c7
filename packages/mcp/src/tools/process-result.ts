import { z } from 'zod'
import type { ReadOutput } from './processes.ts'
import { type ToolResult, textResult } from './tool.ts'

/** What the tools for processes return. */
export const processOutput = z.object({
  execId: z.string(),
  running: z.boolean(),
  exitCode: z.int().optional(),
  signal: z.string().optional(),
  /** Output since `after` of the call. */
  output: z.string(),
  /** Pass it to read_process to read what comes next. */
  after: z.int(),
})

export function processResult(
  execId: string,
  { text, after, exit, notes }: ReadOutput,
  more: readonly string[] = [],
): ToolResult {
  const state = exit
    ? `ended with exit=${exit.exitCode}${exit.signal === undefined ? '' : `, killed by ${exit.signal}`}`
    : 'is running'
  const lines = [`${execId} ${state}; after=${after}`, ...[...notes, ...more].map((note) => `(${note})`)]
  return textResult([...lines, ...(text === '' ? [] : [text])].join('\n'), {
    execId,
    running: exit === undefined,
    ...(exit && { exitCode: exit.exitCode }),
    ...(exit?.signal !== undefined && { signal: exit.signal }),
    output: text,
    after,
  })
}
