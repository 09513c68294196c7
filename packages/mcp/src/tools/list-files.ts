import { z } from 'zod'
import { inSandbox, pathInput } from './inputs.ts'
import { limits } from './limits.ts'
import { shownName, sizeText } from './text.ts'
import { defineTool, textResult } from './tool.ts'

export const listFiles = defineTool({
  name: 'list_files',
  title: 'List files',
  description:
    'List a folder in the sandbox: one name to a line, folders with a slash at the end, files with their size. To find files below it, use search or run_command with find.',
  input: z.object({ path: pathInput('Default: the project folder.').optional() }),
  readOnly: true,
  workMs: () => limits.callMs,
  async run({ path = '.' }, { use }) {
    return use(async (sandbox) => {
      const { handle, signal } = sandbox
      const entries = await handle.files.list(inSandbox(sandbox, path), { signal })
      if (entries.length === 0) return textResult(`(${shownName(path)} is empty)`)
      const shown: string[] = []
      let size = 0
      for (const { name, type, size: bytes } of entries.slice(0, limits.entries)) {
        const line = shownName(name) + suffixOf(type, bytes)
        size += Buffer.byteLength(line) + 1
        if (size > limits.resultBytes) break
        shown.push(line)
      }
      const left = entries.length - shown.length
      return textResult([...shown, ...(left > 0 ? [`[${left} more entries]`] : [])].join('\n'))
    })
  },
})

function suffixOf(type: string, bytes: number): string {
  if (type === 'directory') return '/'
  if (type === 'symlink') return ' (symbolic link)'
  return type === 'file' ? ` (${sizeText(bytes)})` : ' (special file)'
}
