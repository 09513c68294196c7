import { z } from 'zod'
import type { OpenSandbox } from '../sources/index.ts'
import { count, inSandbox, pathInput } from './inputs.ts'
import { limits } from './limits.ts'
import { type Match, matchesOf, searchScript } from './search-output.ts'
import { oneLine, plural, shownName } from './text.ts'
import { defineTool, failure, textResult } from './tool.ts'

export const search = defineTool({
  name: 'search',
  title: 'Search files',
  description:
    'Search files in the sandbox for a regular expression. Returns lines as path:line: text. Skips binary files, and if ripgrep is installed also hidden files and those that .gitignore names.',
  input: z.object({
    pattern: z.string().min(1).max(1_000).describe('A regular expression, for example: function \\w+\\('),
    path: pathInput('A folder or file. Default: the project folder.').optional(),
    glob: z.string().min(1).max(200).describe('Only files with such names, for example: *.ts').optional(),
    ignoreCase: z.boolean().describe('Default false.').optional(),
    maxResults: count(
      limits.maxSearchResults,
      `The maximum number of lines. Default ${limits.searchResults}.`,
    ).optional(),
  }),
  readOnly: true,
  workMs: () => limits.callMs,
  async run({ path = '.', maxResults = limits.searchResults, ...query }, { use }) {
    return use(async (sandbox) => {
      const folder = inSandbox(sandbox, path)
      const { program, output, stderr, exitCode, timedOut } = await searched(sandbox, folder, query)
      const matches = matchesOf(program, output)
      if (matches.length === 0 && exitCode > 1 && !timedOut)
        return failure(oneLine(stderr, 1_000) || `The search failed with exit code ${exitCode}.`)
      return textResult(textOf(matches, { folder, maxResults, program, timedOut, query }))
    })
  },
})

interface Query {
  readonly pattern: string
  readonly glob?: string
  readonly ignoreCase?: boolean
}

/** The expression runs in the sandbox only, and not longer than the limit. */
async function searched(
  { handle, signal }: OpenSandbox,
  folder: string,
  { pattern, glob = '', ignoreCase = false }: Query,
) {
  const ran = await handle.runCommand({
    cmd: 'sh',
    args: ['-c', searchScript, 'sh', pattern, folder, glob, ignoreCase ? '-i' : ''],
    timeoutMs: limits.searchMs,
    maxOutputBytes: limits.searchBytes,
    signal,
  })
  const { stdout, stderr, exitCode, timedOut, truncated } = ran
  const at = stdout.indexOf('\n')
  const [program, output] = [stdout.slice(0, at), stdout.slice(at + 1)]
  return { program, output, stderr, exitCode, timedOut: timedOut || truncated }
}

interface Shown {
  readonly folder: string
  readonly maxResults: number
  readonly program: string
  readonly timedOut: boolean
  readonly query: Query
}

function textOf(matches: readonly Match[], { folder, maxResults, program, timedOut, query }: Shown): string {
  const shown: string[] = []
  let size = 0
  for (const { path, line, text } of matches.slice(0, maxResults)) {
    const name = path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path
    const entry = `${shownName(name)}:${line}: ${oneLine(text, limits.searchLineChars)}`
    size += Buffer.byteLength(entry) + 1
    if (size > limits.resultBytes) break
    shown.push(entry)
  }
  const notes = [
    shown.length < matches.length && `${plural(shown.length, 'line')} of at least ${matches.length} shown`,
    timedOut && 'the search was cut off; search a smaller folder, or a rarer text',
    program === 'plain' && query.glob !== undefined && 'glob was ignored: install ripgrep to use it',
  ].filter((note) => typeof note === 'string')
  const note = notes.length === 0 ? [] : [`[${notes.join('; ')}]`]
  return [...(shown.length === 0 ? ['No matches.'] : shown), ...note].join('\n')
}
