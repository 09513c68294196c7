import { z } from 'zod'
import { inSandbox, pathInput } from './inputs.ts'
import { limits } from './limits.ts'
import { shownName } from './text.ts'
import { defineTool, textResult } from './tool.ts'

export const writeFile = defineTool({
  name: 'write_file',
  title: 'Write file',
  description:
    'Write a text file in the sandbox. Creates parent folders, and replaces an existing file. To change a part of a file, use edit_file.',
  input: z.object({
    path: pathInput('Absolute, or relative to the project folder.'),
    content: z.string().max(limits.contentChars).describe('The whole content.'),
  }),
  readOnly: false,
  workMs: () => limits.callMs,
  async run({ path, content }, { use }) {
    return use(async (sandbox) => {
      const { handle, signal } = sandbox
      await handle.files.writeFile(inSandbox(sandbox, path), content, { signal })
      return textResult(`Wrote ${Buffer.byteLength(content)} bytes to ${shownName(path)}.`)
    })
  },
})
