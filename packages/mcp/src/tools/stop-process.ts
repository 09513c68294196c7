import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { limits } from './limits.ts'
import { processOf } from './processes.ts'
import { execIdInput } from './read-process.ts'
import { defineTool, textResult } from './tool.ts'

export const stopProcess = defineTool({
  name: 'stop_process',
  title: 'Stop process',
  description:
    'Send a signal to a program of start_process and everything that it has started, and wait up to 5 seconds for its end.',
  input: z.object({
    execId: execIdInput,
    signal: z.enum(['SIGTERM', 'SIGINT', 'SIGKILL']).describe('Default SIGTERM.').optional(),
  }),
  readOnly: false,
  workMs: () => limits.callMs,
  async run({ execId, signal = 'SIGTERM' }, { use }) {
    return use(async (sandbox) => {
      const process = await processOf(sandbox, execId)
      const options = { signal: sandbox.signal }
      if (!(await process.kill(signal, options))) return textResult(`${execId} had already ended.`)
      try {
        const exit = await process.wait({ collect: false, timeoutMs: 5_000, ...options })
        return textResult(`${execId} ended with exit=${exit.exitCode}.`)
      } catch (error) {
        if (!SandboxError.is(error, 'timeout')) throw error
        return textResult(`${execId} has ignored ${signal} for 5 seconds. Use SIGKILL.`)
      }
    })
  },
})
