import { readFileSync } from 'node:fs'
import { Command, CommanderError, Option } from 'commander'
import { addDaemonCommands } from './daemon/commands.ts'
import type { UpSetup } from './daemon/up.ts'
import { dockerHint, fromDocker, imageHint } from './docker-habits.ts'
import type { DoctorOptions } from './doctor.ts'
import { addImageCommands } from './image-commands.ts'
import { parseMount, parseOut, parseVolume } from './mount-option.ts'
import { parseDuration, parseEnv, parseSize, withPlaceOptions } from './options.ts'
import { surviveOutputFailures } from './output.ts'
import type { RunOptions } from './run.ts'

export { exitWhenOutputFails } from './output.ts'

/** The command line: arguments in, exit code out. Our own failures are 125, so that they are not taken for a command's. */
export async function main(argv: readonly string[], setup?: UpSetup): Promise<number> {
  const { program, exitCode } = commandLine(setup)
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
 * All commands, and the exit code of the command that ran. This module and what it imports only define them: an action
 * imports the code that it needs, so that `--help` is fast and `run` does not load the daemon.
 */
export function commandLine(setup?: UpSetup): { program: Command; exitCode: () => number } {
  let code = 0
  const program = new Command('sandkasten')
    .description('Sandboxes for AI agents, on this machine.')
    .version(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version)
    .showSuggestionAfterError()
    .showHelpAfterError('Add --help for what there is.')
    .enablePositionalOptions()
    // Below its default of 40 characters Commander does not wrap, and a narrow terminal breaks words.
    .configureHelp({ minWidthToWrap: 16, subcommandTerm: (command) => command.name() })
    .exitOverride()
  withPlaceOptions(program.command('run'))
    .description('Run a command in a fresh, isolated sandbox; nothing of it stays.')
    .argument('<command...>', 'the program and its arguments; put -- before it')
    .option('--image <image>', '`host`, the name of an image, or the folder of a root file system', 'host')
    .option(
      '--mount <source:target[:rw]>',
      'show a folder or file of this machine: read-only, or writable with :rw (again for more)',
      parseMount,
      [],
    )
    .addOption(
      new Option('-v, --volume <source:target[:rw]>', 'as --mount, for those who know it from Docker')
        .argParser(parseVolume)
        .default([])
        .hideHelp(),
    )
    .option(
      '--out <path[:destination]>',
      'copy a file or folder out of the sandbox afterwards, to here or to the destination (again for more)',
      parseOut,
      [],
    )
    .option('--out-limit <size>', 'the most that --out copies, such as 512m or 2g', parseSize, 4096)
    .addOption(new Option('--rm', 'as always: nothing of a run stays').hideHelp())
    .option(
      '-e, --env <name=value>',
      'set a variable; only a name takes this machine’s value (again for more)',
      parseEnv,
      {},
    )
    .option('-m, --memory <size>', 'such as 512m or 2g', parseSize)
    .option('--cpus <number>', 'such as 0.5', Number)
    .option('-w, --workdir <folder>', 'where in the sandbox to run it')
    .addOption(
      new Option('--network <network>', 'what it can reach').choices(['none', 'open']).default('none'),
    )
    .addOption(
      new Option('--isolator <isolator>', 'what isolates it')
        .choices(['auto', 'oci', 'docker', 'process'])
        .default('auto'),
    )
    .option(
      '--runtime <runtime>',
      'what starts it: crun, runc, runsc (gVisor), or the path of one (isolator oci)',
    )
    .option('--timeout <time>', 'end it after this time, such as 90s or 30m', parseDuration)
    .option('-i, --interactive', 'keep stdin open (it is forwarded anyway when it is no terminal)')
    .option('-t, --tty', 'give it a terminal')
    .passThroughOptions()
    .action(async (command: string[], options: RunOptions) => {
      // It ends the command and removes the sandbox first.
      surviveOutputFailures()
      try {
        code = await (await import('./run.ts')).run(command, options)
      } catch (error) {
        code = (await import('./errors.ts')).reportError(error)
        const hint = code === 127 && options.image === 'host' ? imageHint(command) : undefined
        if (hint !== undefined) console.error(`  ${hint}`)
      }
    })
  addDaemonCommands(
    program,
    (result) => {
      code = result
    },
    setup,
  )
  addImageCommands(program)
  withPlaceOptions(program.command('doctor'))
    .description('What this machine can do, what is missing, and what installs it.')
    .option('--json', 'for programs')
    .action(async (options: DoctorOptions) => {
      code = await (await import('./doctor.ts')).doctor(options)
    })
  program
    .command('cloudflare')
    .description('Turn *.sandbox.ts files into Cloudflare configuration (sync, check, migrate, types).')
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
