import { readFileSync } from 'node:fs'
import { Command, CommanderError, Option } from 'commander'
import { addDaemonCommands } from './daemon/register/index.ts'
import type { UpSetup } from './daemon/up.ts'
import { addDiscordCommands } from './discord/register/index.ts'
import { dockerHint, fromDocker, imageHint } from './docker-habits.ts'
import type { DoctorOptions } from './doctor.ts'
import { addImageCommands } from './image-commands.ts'
import { addMcpCommands } from './mcp/register/index.ts'
import { parseMount, parseOut, parseVolume } from './mount-option.ts'
import { withNetworkOptions } from './network-option.ts'
import { parseDuration, parseEnv, parseSize, withPlaceOptions } from './options.ts'
import { surviveOutputFailures } from './output.ts'
import type { RunOptions } from './run.ts'
import { addSandboxCommands } from './sandbox/register/index.ts'

export { exitWhenOutputFails } from './output.ts'
export { showWarnings } from './warnings.ts'

/**
 * The command line: takes arguments, returns the exit code. Our own failures exit with 125, to distinguish them from
 * a command's.
 */
export async function main(argv: readonly string[], setup?: UpSetup): Promise<number> {
  const { program, exitCode } = commandLine(setup, argv[2])
  try {
    const ours = new Set(program.commands.flatMap((command) => [command.name(), ...command.aliases()]))
    await program.parseAsync(fromDocker(argv, ours))
    return exitCode()
  } catch (error) {
    if (error instanceof CommanderError) {
      const hint = dockerHint(argv, error.message)
      if (hint !== undefined) console.error(hint)
      return error.exitCode === 0 ? 0 : 125
    }
    return (await import('./errors.ts')).reportError(error)
  }
}

/**
 * All commands, and the exit code of the command that ran. If the first argument is `run`, only `run` is defined, so
 * that it starts faster. This module and what it imports only define commands: an action imports the code that it
 * needs, so that `--help` is fast and `run` does not load the daemon.
 */
export function commandLine(
  setup?: UpSetup,
  first?: string,
): {
  program: Command
  exitCode: () => number
} {
  let code = 0
  const program = new Command('sandkasten')
    .description('Sandboxes for AI agents, on this machine.')
    .version(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
    .showSuggestionAfterError()
    .showHelpAfterError('Use --help to list commands and options.')
    .enablePositionalOptions()
    // Below its default of 40 characters Commander does not wrap, and a narrow terminal would break words.
    .configureHelp({ minWidthToWrap: 16, subcommandTerm: (command) => command.name() })
    .exitOverride()
  withNetworkOptions(withPlaceOptions(program.command('run')))
    .description('Run a command in a fresh, isolated sandbox and remove the sandbox afterwards.')
    .argument('<command...>', 'the program and its arguments; put -- before it')
    .option('--image <image>', '`host`, the name of an image, or a folder with a root file system', 'host')
    .option(
      '--mount <source:target[:rw]>',
      'mount a folder or file of this machine: read-only, or writable with :rw (repeatable)',
      parseMount,
      [],
    )
    .addOption(
      new Option('-v, --volume <source:target[:rw]>', 'like --mount, with Docker’s name')
        .argParser(parseVolume)
        .default([])
        .hideHelp(),
    )
    .option(
      '--out <path[:destination]>',
      'afterwards, copy a file or folder out of the sandbox, to the current folder or the destination (repeatable)',
      parseOut,
      [],
    )
    .option('--out-limit <size>', 'size limit for all --out, such as 512m or 2g', parseSize, 4096)
    .addOption(new Option('--rm', 'accepted for Docker users: a run is always removed').hideHelp())
    .option(
      '-e, --env <name=value>',
      'set a variable; a bare name takes the value from this machine (repeatable)',
      parseEnv,
      {},
    )
    .option('-m, --memory <size>', 'such as 512m or 2g', parseSize)
    .option('--cpus <number>', 'such as 0.5', Number)
    .option('-w, --workdir <folder>', 'working folder in the sandbox')
    .addOption(new Option('-u, --user <user>', 'root: commands are root of the sandbox').choices(['root']))
    .addOption(
      new Option('--isolator <isolator>', 'how to isolate the command')
        .choices(['auto', 'oci', 'docker', 'process'])
        .default('auto'),
    )
    .option('--runtime <runtime>', 'for isolator oci: crun, runc, runsc (gVisor), or a path')
    .option('--timeout <time>', 'time limit, such as 90s or 30m', parseDuration)
    .option('-i, --interactive', 'keep stdin open (stdin is always forwarded unless it is a terminal)')
    .option('-t, --tty', 'allocate a terminal')
    .passThroughOptions()
    .action(async (command: string[], options: RunOptions) => {
      // `run` ends the command and removes the sandbox first.
      surviveOutputFailures()
      try {
        code = await (await import('./run.ts')).run(command, options)
      } catch (error) {
        code = (await import('./errors.ts')).reportError(error)
        const hint = code === 127 && options.image === 'host' ? imageHint(command) : undefined
        if (hint !== undefined) console.error(`  ${hint}`)
      }
    })
  if (first === 'run') return { program, exitCode: () => code }
  const finish = (result: number) => {
    code = result
  }
  addSandboxCommands(program, finish)
  addMcpCommands(program, finish)
  addDiscordCommands(program, finish)
  addDaemonCommands(program, finish, setup)
  addImageCommands(program)
  withPlaceOptions(program.command('doctor'))
    .description('Check what this machine supports, what is missing, and how to install it.')
    .option('--json', 'for programs')
    .action(async (options: DoctorOptions) => {
      code = await (await import('./doctor.ts')).doctor(options)
    })
  program
    .command('cloudflare')
    .description('Generate Cloudflare configuration from *.sandbox.ts files (sync, check, migrate, types).')
    .allowUnknownOption()
    .helpOption(false)
    .argument('[arguments...]')
    .action(async (args: string[]) => {
      const { run } = await import('@sandkasten/cloudflare/cli')
      const { stdout, stderr } = process
      code = await run(args, {
        cwd: process.cwd(),
        stdout: (text) => void stdout.write(text),
        stderr: (text) => void stderr.write(text),
      })
    })
  return { program, exitCode: () => code }
}
