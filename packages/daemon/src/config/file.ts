import { readFile as read } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { parseDocument } from 'yaml'

/** Reads the configuration file. Undefined when the default file does not exist. */
export async function readFile(
  asked: string | undefined,
  cwd: string,
): Promise<{ file: string; content: Record<string, unknown> } | undefined> {
  const file = path.resolve(cwd, asked ?? 'sandkasten.yaml')
  let text: string
  try {
    text = await read(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' && asked === undefined) return undefined
    throw new SandboxError('invalid_argument', `The configuration ${file} cannot be read.`, {
      cause: error,
      hint: 'Check the path and its permissions.',
    })
  }
  const document = parseDocument(text)
  const [problem] = document.errors
  if (problem)
    throw new SandboxError('invalid_argument', `${file} is not YAML: ${problem.message.split('\n')[0]}`, {
      hint: 'Correct this line.',
    })
  const content: unknown = document.toJS() ?? {}
  if (typeof content !== 'object' || content === null || Array.isArray(content))
    throw new SandboxError('invalid_argument', `${file} must hold keys and values.`, {
      hint: 'For example: listen: "127.0.0.1:8080"',
    })
  return { file, content: content as Record<string, unknown> }
}
