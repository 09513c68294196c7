import { supports } from '@sandkasten/sdk'
import { z } from 'zod'
import { limits } from './limits.ts'
import { oneLine } from './text.ts'
import type { ToolContext } from './tool.ts'
import { defineTool, textResult } from './tool.ts'

export const status = defineTool({
  name: 'status',
  title: 'Status',
  description:
    'Return the state of the sandbox: whether it runs, its project folder, when it ends, its last snapshot, and its programs. Does not start a stopped sandbox; every other tool does.',
  input: z.object({}),
  readOnly: true,
  workMs: () => limits.callMs,
  async run(_input, context) {
    const { source, signal } = context
    const state = await source.state({ refresh: true, signal })
    const lines = [
      `name: ${oneLine(state.name)}`,
      `provider: ${state.provider}`,
      `status: ${state.status}`,
      state.directory !== undefined && `project folder: ${state.directory}`,
      state.expiresAt !== undefined && `ends at: ${state.expiresAt}`,
      state.snapshotAt !== undefined && `last snapshot: ${state.snapshotAt}`,
      state.problem !== undefined && `problem: ${oneLine(state.problem, 500)}`,
      ...(state.status === 'running' ? await programs(context) : []),
    ].filter((line) => typeof line === 'string')
    return textResult(lines.join('\n'))
  },
})

async function programs({ use }: ToolContext): Promise<string[]> {
  return use(async ({ handle, processes, signal }) => {
    const found = supports(handle, 'reattach')
      ? await handle.listProcesses({ signal })
      : [...processes.keys()].map((execId) => ({ execId, running: true, cmd: undefined }))
    const running = found.filter((one) => one.running)
    if (running.length === 0) return ['programs: none']
    const shown = running.slice(-limits.processes).map(({ execId, cmd = '' }) => {
      const text = processes.get(execId)?.cmd ?? cmd
      return `- ${oneLine(execId)} ${oneLine(text, 100)}`.trimEnd()
    })
    return [`programs: ${running.length}`, ...shown]
  })
}
