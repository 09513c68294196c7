import { randomBytes } from 'node:crypto'
import { supports } from '@sandkasten/sdk'
import { z } from 'zod'
import { cmdInput, count, cwdInput, inSandbox, shellCommand } from './inputs.ts'
import { limits } from './limits.ts'
import { processResult } from './process-result.ts'
import { readOutput, remember } from './processes.ts'
import { defineTool } from './tool.ts'

export const startProcess = defineTool({
  name: 'start_process',
  title: 'Start process',
  description:
    'Start a program in the sandbox that keeps running, such as a server, and return its execId and its first output. Read its output with read_process, end it with stop_process. It survives this conversation, but not a restart of the sandbox.',
  input: z.object({
    cmd: cmdInput,
    cwd: cwdInput,
    waitMs: count(
      limits.maxWaitMs,
      'How long to wait for the first output, in milliseconds. Default 1000.',
    ).optional(),
  }),
  readOnly: false,
  workMs: () => limits.callMs + limits.maxWaitMs,
  async run({ cmd, cwd, waitMs = 1_000 }, { use }) {
    return use(async (sandbox) => {
      const { handle, signal } = sandbox
      const process = await handle.spawn({
        ...shellCommand(cmd),
        cwd: inSandbox(sandbox, cwd ?? '.'),
        detached: true,
        execId: `mcp-${randomBytes(5).toString('hex')}`,
        ...(supports(handle, 'mergedOutput') && { output: 'merged' }),
      })
      remember(sandbox, process, cmd)
      return processResult(process.execId, await readOutput(process, { after: 0, waitMs }, signal))
    })
  },
})
