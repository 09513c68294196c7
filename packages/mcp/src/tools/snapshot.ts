import { z } from 'zod'
import { limits } from './limits.ts'
import { defineTool, textResult } from './tool.ts'

export const snapshot = defineTool({
  name: 'snapshot',
  title: 'Save snapshot',
  description:
    'Save the disk of the sandbox. If the sandbox is lost, it is created again from its last snapshot. At some providers this ends running programs.',
  input: z.object({
    name: z
      .string()
      .min(1)
      .max(63)
      .describe('A name for the snapshot. Default: made from the time.')
      .optional(),
  }),
  readOnly: false,
  workMs: () => 10 * limits.callMs,
  async run({ name }, { source, signal }) {
    const { snapshotId } = await source.snapshot({ name, signal })
    return textResult(`Saved snapshot ${snapshotId}.`, { snapshotId })
  },
})
