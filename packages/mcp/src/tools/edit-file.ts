import { z } from 'zod'
import { applyEdit } from './edit.ts'
import { inSandbox, pathInput } from './inputs.ts'
import { limits } from './limits.ts'
import { shownName } from './text.ts'
import { defineTool, failure, textResult } from './tool.ts'

export const editFile = defineTool({
  name: 'edit_file',
  title: 'Edit file',
  description:
    'Replace text in a file of the sandbox. oldString must occur exactly once, with the same spaces and line breaks; include lines around it to make it unique, or pass replaceAll. Nothing is changed if it is absent or ambiguous.',
  input: z.object({
    path: pathInput('Absolute, or relative to the project folder.'),
    oldString: z.string().min(1).max(limits.oldStringChars).describe('The exact text to replace.'),
    newString: z.string().max(limits.contentChars).describe('The text to put in its place.'),
    replaceAll: z.boolean().describe('Replace every occurrence. Default false.').optional(),
  }),
  readOnly: false,
  workMs: () => limits.callMs,
  async run({ path: given, oldString, newString, replaceAll = false }, { use }) {
    return use(async (sandbox) => {
      const { handle, signal } = sandbox
      const path = inSandbox(sandbox, given)
      const name = shownName(given)
      const bytes = await handle.files.readFile(path, { maxBytes: limits.editBytes, signal })
      let text: string
      try {
        text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
      } catch {
        return failure(`${name} is not UTF-8 text. Change it with run_command.`)
      }
      const edit = applyEdit(text, { oldString, newString, replaceAll })
      if ('problem' in edit)
        return failure(`${edit.problem.replace('FILE', () => name)} Nothing was changed.`)
      await handle.files.writeFile(path, edit.text, { signal })
      const where = edit.lines.length === 1 ? `line ${edit.lines[0]}` : `lines ${shownLines(edit.lines)}`
      return textResult(`Replaced ${edit.replaced} of ${edit.replaced} in ${name}, at ${where}.`, {
        replaced: edit.replaced,
        lines: edit.lines.slice(0, limits.entries),
      })
    })
  },
})

function shownLines(lines: readonly number[]): string {
  return lines.length <= 20 ? lines.join(', ') : `${lines.slice(0, 20).join(', ')}, …`
}
