import { z } from 'zod'
import { inSandbox, pathInput } from './inputs.ts'
import { limits } from './limits.ts'
import { shownName } from './text.ts'
import { defineTool, failure, textResult } from './tool.ts'

export const uploadFile = defineTool({
  name: 'upload_file',
  title: 'Upload file',
  description:
    'Copy a file from the machine of the agent into the sandbox. Only files in folders that the user has allowed can be uploaded.',
  input: z.object({
    localPath: pathInput('The absolute path of the file on the machine of the agent.'),
    remotePath: pathInput('Where to write it in the sandbox: absolute, or relative to the project folder.'),
  }),
  readOnly: false,
  workMs: () => 10 * limits.callMs,
  async run({ remotePath }, { use, hostFile }) {
    if (!hostFile) return failure('No files can be uploaded here.')
    return use(async (sandbox) => {
      const { handle, signal } = sandbox
      let bytes = 0
      const counted = async function* () {
        for await (const chunk of hostFile.stream()) {
          bytes += chunk.byteLength
          yield chunk
        }
      }
      await handle.files.writeFile(inSandbox(sandbox, remotePath), counted(), { signal })
      return textResult(`Uploaded ${bytes} bytes to ${shownName(remotePath)}.`)
    })
  },
})
