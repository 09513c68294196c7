import { z } from 'zod'
import { limits } from './limits.ts'
import { processResult } from './process-result.ts'
import { processOf, readOutput } from './processes.ts'
import { defineTool } from './tool.ts'

export const execIdInput = z.string().min(1).max(200).describe('From start_process or status.')

export const readProcess = defineTool({
  name: 'read_process',
  title: 'Read process',
  description:
    'Return what a program of start_process has written, and whether it runs. Pass after from the last result to get only what is new. Long output loses its middle.',
  input: z.object({
    execId: execIdInput,
    after: z.int().min(0).describe('Default 0: from the beginning.').optional(),
    waitMs: z
      .int()
      .min(0)
      .max(limits.maxWaitMs)
      .describe('How long to wait for new output, in milliseconds. Default 0.')
      .optional(),
  }),
  readOnly: true,
  workMs: () => limits.callMs + limits.maxWaitMs,
  async run({ execId, after = 0, waitMs = 0 }, { use }) {
    return use(async (sandbox) => {
      const process = await processOf(sandbox, execId)
      return processResult(execId, await readOutput(process, { after, waitMs }, sandbox.signal))
    })
  },
})
