import { checkCount, checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import type { CallOptions, SandboxExecutor } from '../executor.ts'
import { checkInput, inputSchema, type ToolInputSchema } from './input.ts'
import { errorText, fileText, listText, openingText, resultText } from './text.ts'

/** One tool of an agent, in the shape that every framework can use. */
export interface SandboxTool {
  readonly name: string
  /** For the model. */
  readonly description: string
  /** JSON Schema of the input. */
  readonly inputSchema: ToolInputSchema
  /**
   * Runs the tool and returns text for the model. Errors that a model can correct are text too; errors of the
   * sandbox's provider, such as wrong credentials, are thrown.
   */
  execute(input: unknown, options?: CallOptions): Promise<string>
}

export interface SandboxToolsOptions {
  /** The time limit of a line, if the model gives none. Default 30,000. */
  timeoutMs?: number
  /** The longest time that the model may ask for. Default 600,000. */
  maxTimeoutMs?: number
  /** The maximum size of one result, in characters. Default 32,000. */
  maxResultChars?: number
}

/**
 * Tools for an agent: `exec` (one shell line), `read_file`, `write_file` and `list_files`.
 *
 *     const tools = sandboxTools(getSandboxExecutor({ conversationId }))
 */
export function sandboxTools(executor: SandboxExecutor, options: SandboxToolsOptions = {}): SandboxTool[] {
  checkKnown(options, ['timeoutMs', 'maxTimeoutMs', 'maxResultChars'], 'sandboxTools()')
  const maxTimeoutMs = checkCount(options.maxTimeoutMs ?? 600_000, 'maxTimeoutMs', 24 * 60 * 60_000)
  const timeoutMs = checkCount(options.timeoutMs ?? Math.min(30_000, maxTimeoutMs), 'timeoutMs', maxTimeoutMs)
  const max = checkCount(options.maxResultChars ?? 32_000, 'maxResultChars', 10_000_000)
  let told = executor.lastOpening

  const tool = <Input>(
    name: string,
    description: string,
    schema: ToolInputSchema,
    run: (input: Input, call: CallOptions) => Promise<string>,
  ): SandboxTool => ({
    name,
    description,
    inputSchema: schema,
    async execute(input, { signal } = {}) {
      const checked = checkInput<Input>(schema, input)
      if (typeof checked === 'string') return checked
      const text = await run(checked.input, { signal }).catch((error: unknown) => errorText(error))
      const opening = executor.lastOpening
      const isNews = opening !== told && opening?.reason !== undefined
      told = opening
      return isNews ? `${openingText(opening)}\n${text}` : text
    },
  })

  return [
    tool<{ cmd: string; timeoutMs?: number }>(
      'exec',
      'Run one shell line in the sandbox and return its exit code, stdout and stderr. Each line starts in the working directory; cd and variables do not carry over to the next line, files do. Long output loses its middle.',
      inputSchema(['cmd'], {
        cmd: { type: 'string', description: 'The line, for example: python3 main.py | tail -20' },
        timeoutMs: {
          type: 'integer',
          minimum: 1,
          maximum: maxTimeoutMs,
          description: `Kill the line after this many milliseconds. Default ${timeoutMs}.`,
        },
      }),
      async ({ cmd, timeoutMs: timeout = timeoutMs }, { signal }) => {
        const maxOutputBytes = Math.ceil(max / 2)
        return resultText(await executor.executeLine(cmd, { timeout, signal, maxOutputBytes }), {
          timeout,
          max,
        })
      },
    ),
    tool<{ path: string; startLine?: number; lineCount?: number }>(
      'read_file',
      'Read a text file of the sandbox. Returns a long file in parts: pass startLine to go on.',
      inputSchema(['path'], {
        path: { type: 'string', description: 'Relative to the working directory.' },
        startLine: { type: 'integer', minimum: 1, description: 'The first line to return. Default 1.' },
        lineCount: {
          type: 'integer',
          minimum: 1,
          description: 'The number of lines. Default: as many as fit.',
        },
      }),
      async ({ path, ...range }, { signal }) => {
        const content = await executor.readFile(path, { maxBytes: maxReadBytes, signal })
        if (content === null) throw new SandboxError('file_not_found', `The file ${path} does not exist.`)
        return fileText(path, content, { ...range, max })
      },
    ),
    tool<{ path: string; content: string }>(
      'write_file',
      'Write a text file of the sandbox. Creates parent folders, and replaces an existing file.',
      inputSchema(['path', 'content'], {
        path: { type: 'string', description: 'Relative to the working directory.' },
        content: { type: 'string', description: 'The whole content.' },
      }),
      async ({ path, content }, { signal }) => {
        await executor.writeFile(path, content, { signal })
        return `Wrote ${new TextEncoder().encode(content).byteLength} bytes to ${path}.`
      },
    ),
    tool<{ path?: string }>(
      'list_files',
      'List the names in a folder of the sandbox.',
      inputSchema([], { path: { type: 'string', description: 'Default: the working directory.' } }),
      async ({ path = '.' }, { signal }) => listText(path, await executor.listFiles(path, { signal }), max),
    ),
  ]
}

/** More would not fit into a result, and the whole file is read into memory. */
const maxReadBytes = 16 * 1024 * 1024
