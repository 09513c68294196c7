import type { ReadOutput } from './processes.ts'
import { type ToolResult, textResult } from './tool.ts'

/** What the tools for processes return. */
export function processResult(execId: string, { text, after, exit, notes }: ReadOutput): ToolResult {
  const state = exit
    ? `ended with exit=${exit.exitCode}${exit.signal === undefined ? '' : `, killed by ${exit.signal}`}`
    : 'is running'
  const lines = [`${execId} ${state}; after=${after}`, ...notes.map((note) => `(${note})`)]
  return textResult([...lines, ...(text === '' ? [] : [text])].join('\n'), {
    execId,
    running: exit === undefined,
    ...(exit && { exitCode: exit.exitCode }),
    after,
  })
}
