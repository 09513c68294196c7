/** Parses the command line. An unknown word is rejected with the nearest known one. */
import { parseArgs } from 'node:util'
import { nearest } from '../paths.ts'
import type { Rename } from '../plan/migrations.ts'

export const COMMANDS = ['sync', 'check', 'migrate', 'types'] as const

export type Command = (typeof COMMANDS)[number]

export interface CliOptions {
  command: Command
  root: string | undefined
  config: string | undefined
  dir: string | undefined
  envs: 'all' | string[] | undefined
  adopt: boolean
  deleteClasses: string[]
  renames: Rename[]
  dryRun: boolean
  json: boolean
  strict: boolean
  name: string | undefined
  keepAlias: boolean
  out: string | undefined
}

export class UsageError extends Error {}

const FLAGS = {
  root: { type: 'string' },
  config: { type: 'string', short: 'c' },
  dir: { type: 'string', short: 'd' },
  env: { type: 'string', multiple: true, short: 'e' },
  'all-envs': { type: 'boolean' },
  'no-envs': { type: 'boolean' },
  adopt: { type: 'boolean' },
  'delete-class': { type: 'string', multiple: true },
  rename: { type: 'string', multiple: true },
  'dry-run': { type: 'boolean' },
  json: { type: 'boolean' },
  strict: { type: 'boolean' },
  name: { type: 'string' },
  'keep-alias': { type: 'boolean' },
  out: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

/** Flags that belong to certain commands; all others are valid for every command. */
const ONLY: { [flag: string]: Command[] } = {
  adopt: ['sync', 'check'],
  'delete-class': ['sync', 'check'],
  rename: ['sync', 'check'],
  'dry-run': ['sync', 'migrate', 'types'],
  name: ['migrate'],
  'keep-alias': ['migrate'],
  out: ['types'],
  env: ['sync', 'check'],
  'all-envs': ['sync', 'check'],
  'no-envs': ['sync', 'check'],
}

export const HELP = `sandkasten cloudflare <command> [options]

  sync      write containers, bindings and migrations of all *.sandbox.ts files into the wrangler config
  check     show what sync would do; exit code 1 when there is something (for CI)
  migrate   turn the old hand-written class "Sandbox" into a *.sandbox.ts file, keeping its data
  types     write sandbox-env.d.ts with the bindings of Env, for projects without \`wrangler types\`

  --root <folder>        the project (default: the current folder)
  -c, --config <file>    the wrangler config (default: wrangler.json, .jsonc or .toml, as wrangler looks for it)
  -d, --dir <folder>     where the sandbox files are (default: src/server)
  -e, --env <name>       keep env.<name> in step too; repeatable; remembered
      --all-envs         all named environments      --no-envs   none of them any more
      --dry-run          show, do not write
      --json             one JSON object on standard output
      --strict           warnings count as errors
      --adopt            take over hand-written entries that differ
      --delete-class <C> delete class C, its objects and all their data with the next deploy; repeatable
      --rename <A=B>     class A is called B now and its file was renamed too; repeatable
      --name <name>      migrate: the new file's name (default: shell)
      --keep-alias       migrate: keep the binding "Sandbox" beside the new one
      --out <file.d.ts>  types: where to write (default: sandbox-env.d.ts)
  -h, --help             this text

Exit codes: 0 done or in step, 1 check found a difference, 2 an error: nothing was written.`

/** Undefined if help was requested. Throws UsageError. */
export function parseOptions(argv: string[]): CliOptions | undefined {
  let parsed: ReturnType<typeof parseStrictly>
  try {
    parsed = parseStrictly(argv)
  } catch (error) {
    throw new UsageError(explain(error as Error))
  }
  const { values, positionals } = parsed
  if (values.help || (positionals.length === 0 && argv.length === 0)) return undefined
  const [word, ...rest] = positionals
  const command = COMMANDS.find((one) => one === word)
  if (!command) {
    const meant = word && nearest(word, COMMANDS)
    const hint = meant ? `did you mean ${meant}?` : `choose one of ${COMMANDS.join(', ')}`
    throw new UsageError(`${word ? `there is no command “${word}”` : 'no command given'}: ${hint}`)
  }
  if (rest.length > 0) throw new UsageError(`unexpected argument “${rest[0]}”`)
  for (const flag of Object.keys(values)) {
    if (ONLY[flag] && !ONLY[flag].includes(command))
      throw new UsageError(`--${flag} is not valid for ${command}`)
  }
  return {
    command,
    root: values.root,
    config: values.config,
    dir: values.dir,
    envs: values['all-envs'] ? 'all' : values['no-envs'] ? [] : values.env?.flatMap((env) => env.split(',')),
    adopt: values.adopt ?? false,
    deleteClasses: values['delete-class'] ?? [],
    renames: (values.rename ?? []).map(parseRename),
    dryRun: values['dry-run'] ?? false,
    json: values.json ?? false,
    strict: values.strict ?? false,
    name: values.name,
    keepAlias: values['keep-alias'] ?? false,
    out: values.out,
  }
}

function parseStrictly(argv: string[]) {
  return parseArgs({ args: argv, options: FLAGS, allowPositionals: true })
}

function parseRename(text: string): Rename {
  const match = /^([\w$]+)=([\w$]+)$/.exec(text)
  if (!match) throw new UsageError(`--rename takes OldClass=NewClass, not “${text}”`)
  return { from: match[1]!, to: match[2]! }
}

function explain(error: Error): string {
  const unknown = /Unknown option '(--?[^']*)'/.exec(error.message)?.[1]
  if (!unknown) return error.message.split('\n')[0]!.split('. ')[0]!
  const meant = nearest(unknown.replace(/^-+/, ''), Object.keys(FLAGS))
  return `there is no option ${unknown}${meant ? `: did you mean --${meant}?` : ''}`
}
