/**
 * The command line as a function: takes arguments and streams, returns the exit code. Used by `sandkasten cloudflare
 * …` and by this package's `sandkasten-cloudflare`.
 */
import { resolve } from 'node:path'
import { type CliOptions, HELP, parseOptions, UsageError } from './cli/options.ts'
import { migrate } from './migrate/migrate.ts'
import type { SyncOptions, SyncResult } from './prepare.ts'
import { CloudflareSyncError, formatProblem, type Problem } from './problem.ts'
import { check, sync } from './sync.ts'
import { generateTypes } from './types.ts'

export interface CliIo {
  cwd: string
  stdout(text: string): void
  stderr(text: string): void
}

interface Outcome {
  exitCode: number
  lines: string[]
  data: { [key: string]: unknown }
  problems: Problem[]
}

/** Runs one command. Results go to stdout, problems to stderr; with `--json`, both go into one object on stdout. */
export async function run(argv: string[], io: CliIo): Promise<number> {
  let options: CliOptions | undefined
  try {
    options = parseOptions(argv)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    if (argv.includes('--json')) {
      const problems = [{ severity: 'error', code: 'usage', message: error.message }]
      io.stdout(`${JSON.stringify({ ok: false, exitCode: 2, problems })}\n`)
    } else io.stderr(`error: ${error.message}\nsee \`sandkasten cloudflare --help\`\n`)
    return 2
  }
  if (!options) {
    io.stdout(`${HELP}\n`)
    return 0
  }
  const outcome = await attempt(options, io)
  const isRefused = options.strict && outcome.problems.some(({ severity }) => severity === 'warning')
  const exitCode = outcome.exitCode === 0 && isRefused ? 2 : outcome.exitCode
  if (options.json) {
    const { data, problems } = outcome
    io.stdout(
      `${JSON.stringify({ ok: exitCode === 0, command: options.command, exitCode, ...data, problems }, null, 2)}\n`,
    )
    return exitCode
  }
  if (outcome.lines.length > 0) io.stdout(`${outcome.lines.join('\n')}\n`)
  for (const problem of outcome.problems) io.stderr(`${formatProblem(problem)}\n`)
  return exitCode
}

async function attempt(options: CliOptions, io: CliIo): Promise<Outcome> {
  try {
    return await COMMANDS[options.command](options, syncOptions(options, io))
  } catch (error) {
    if (error instanceof CloudflareSyncError)
      return { exitCode: 2, lines: [], data: {}, problems: error.problems }
    // An error of the file system is printed without a stack.
    if (!(error instanceof Error) || !('syscall' in error)) throw error
    const problem: Problem = { severity: 'error', code: 'system', message: error.message }
    return { exitCode: 2, lines: [], data: {}, problems: [problem] }
  }
}

const COMMANDS: {
  [name in CliOptions['command']]: (cli: CliOptions, options: SyncOptions) => Promise<Outcome>
} = {
  async sync(cli, options) {
    // With --strict a warning must prevent writing, so check first.
    const looked = cli.dryRun || cli.strict ? await check(options) : undefined
    const stop = cli.dryRun || looked?.problems.some(({ severity }) => severity === 'warning')
    const result = looked && stop ? looked : await sync(options)
    const lines = result.edits.map(({ why }) => `  ${why}`)
    if (stop && result.changed)
      lines.unshift(`would change ${result.configFile}:`, result.diff + result.instructions)
    else if (result.written) {
      lines.unshift(`wrote ${result.configFile}:`)
      lines.push('run `wrangler types` to refresh Env (or `sandkasten cloudflare types`)')
    } else lines.unshift(inStep(result))
    return { exitCode: 0, lines, data: dataOf(result), problems: result.problems }
  },

  async check(_cli, options) {
    const result = await check(options)
    if (!result.changed)
      return { exitCode: 0, lines: [inStep(result)], data: dataOf(result), problems: result.problems }
    const told = result.edits.map(({ why }) => `  ${why}`)
    const next = result.instructions
      ? [
          `write this into ${result.configFile}, then run \`sandkasten cloudflare sync\`:`,
          result.instructions,
        ]
      : [result.diff, 'run `sandkasten cloudflare sync` and commit both files']
    const lines = [`${result.configFile} is out of step with the *.sandbox.ts files:`, ...told, ...next]
    return { exitCode: 1, lines, data: dataOf(result), problems: result.problems }
  },

  async migrate(cli, options) {
    const { name, dryRun, keepAlias } = cli
    const result = await migrate({ ...options, dryRun, keepAlias, name: name || undefined })
    const steps = result.steps.map((step, index) => `${String(index + 1).padStart(3)}. ${step}`)
    const lines = [dryRun ? 'would do:' : 'done, except for the steps marked “by hand”:', ...steps]
    if (dryRun && result.source) lines.push(`--- ${result.source.file} (new)`, result.source.text)
    if (dryRun) lines.push(result.diff + result.instructions)
    const data = {
      ...dataOf(result),
      steps: result.steps,
      callSites: result.callSites,
      source: result.source,
    }
    return {
      exitCode: 0,
      lines,
      data,
      problems: result.problems.filter(({ code }) => code !== 'not-exported'),
    }
  },

  async types(cli, options) {
    const result = await generateTypes({ ...options, dryRun: cli.dryRun, out: cli.out || undefined })
    const { file, changed, written, diff } = result
    const state = written
      ? `wrote ${file}`
      : changed
        ? `would write ${file}:\n${diff}`
        : `${file} is up to date`
    const lines = [state, 'you do not need this file if you run `wrangler types`']
    const problems = result.problems.filter(({ severity }) => severity === 'error')
    return { exitCode: 0, lines, data: { file, changed, written, diff }, problems }
  },
}

function syncOptions(cli: CliOptions, io: CliIo): SyncOptions {
  const options: SyncOptions = { root: resolve(io.cwd, cli.root ?? '.'), adopt: cli.adopt }
  if (cli.config !== undefined) options.config = cli.config
  if (cli.dir !== undefined) options.dir = cli.dir
  if (cli.envs !== undefined) options.envs = cli.envs
  if (cli.deleteClasses.length > 0) options.deleteClasses = cli.deleteClasses
  if (cli.renames.length > 0) options.renames = cli.renames
  return options
}

function inStep({ configFile, sandboxes }: SyncResult): string {
  if (configFile === undefined) return 'no *.sandbox.ts files and no wrangler config: nothing to do'
  const count = sandboxes.length === 1 ? '1 sandbox' : `${sandboxes.length} sandboxes`
  return `${configFile} is in step (${count})`
}

function dataOf(result: SyncResult): { [key: string]: unknown } {
  const { configFile, changed, written, diff, instructions, edits } = result
  const sandboxes = result.sandboxes.map(({ file, className, binding, container, image }) => {
    return { file, className, binding, container, image }
  })
  return { configFile, changed, written, sandboxes, changes: edits.map(({ why }) => why), diff, instructions }
}
