import { SandboxError } from '../../errors.ts'
import { quoteArg, quoteArgs } from '../quote.ts'

/**
 * Shell scripts that become programs. They take no arguments, so a process list shows nothing of them, and they remove
 * themselves first. Each reports on the fifo `ready` whether the program could start.
 */
export interface Launch {
  /** An absolute path. */
  readonly cwd: string
  /** If set, `cwd` must be below this folder. */
  readonly confinedTo?: string
  readonly env: Readonly<Record<string, string>>
}

/** With `merged`, stderr is the same pipe as stdout. */
export function programScript(
  launch: Launch,
  { cmd, args, merged }: { cmd: string; args: readonly string[]; merged?: boolean | undefined },
): string {
  const program = `exec ${quoteArgs([runnable(cmd), ...args])}${merged ? ' 2>&1' : ''}`
  return `rm -f ./spec ./stdin\n${head(launch)}\n${lookUp(cmd)}\n${begin}\n${program}\n`
}

/** script(1) makes the terminal and relays it. The size is set before the program starts. `exec` leaves no shell between them. */
export function terminalScript(
  launch: Launch,
  options: { cols: number; rows: number; cmd?: string; args: readonly string[] },
): string {
  const { cols, rows, cmd, args } = options
  const program = cmd === undefined ? '"$SHELL"' : quoteArgs([runnable(cmd), ...args])
  const line = `SHELL=$SANDKASTEN_SHELL; unset SANDKASTEN_SHELL; stty rows ${rows} cols ${cols}; SANDKASTEN_TERMINAL=ready exec ${program}`
  return [
    'rm -f ./spec',
    head(launch),
    cmd === undefined ? '' : lookUp(cmd),
    lookUp('script', 85),
    // script runs the line with $SHELL.
    `export SANDKASTEN_SHELL="\${SHELL:-/bin/sh}" SHELL=/bin/sh`,
    begin,
    `exec script -q -f -e -c ${quoteArg(line)} /dev/null`,
    '',
  ].join('\n')
}

/** Throws if a shell cannot set a variable with this name. */
export function checkVariables(env: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(env))
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw new SandboxError(
        'invalid_argument',
        `\`env\` has the name ${JSON.stringify(name)}, which the sandbox’s shell cannot set.`,
        { hint: 'Use letters, digits and underscores.' },
      )
}

function head({ cwd, confinedTo, env }: Launch): string {
  checkVariables(env)
  // `command` keeps bash alive, which does not let anybody set a few variables.
  const variables = Object.entries(env).map(
    ([name, value]) => `command export ${name}=${quoteArg(value)} 2>/dev/null`,
  )
  const folder = quoteArg(cwd)
  return `__d=$PWD
__fail() { echo "fail $1" 1<>"$__d/ready"; exit 1; }
umask "\${SANDKASTEN_UMASK:-022}"
[ -z "\${SANDKASTEN_PATH+x}" ] || PATH=$SANDKASTEN_PATH
unset SANDKASTEN_PATH SANDKASTEN_UMASK SANDKASTEN_SUPERVISOR SSH_CLIENT SSH_CONNECTION SSH_TTY CDPATH OLDPWD
${variables.join('\n')}
cd -- ${folder} 2>/dev/null || { [ ! -d ${folder} ] || __fail 77; __fail 75; }
${confinedTo === undefined ? '' : `case "$(pwd -P)/" in ${quoteArg(confinedTo)}/*) ;; *) __fail 78 ;; esac`}`
}

/** Checks that the program exists before it is started: a shell reports a missing program as exit code 127. */
function lookUp(cmd: string, missing = 76): string {
  const name = quoteArg(runnable(cmd))
  if (cmd.includes('/'))
    return `[ -e ${name} ] || __fail 76
[ -x ${name} ] && [ ! -d ${name} ] || __fail 77`
  return `__o=${missing}; set -f; IFS=:
for __p in $PATH; do
  [ -f "\${__p:-.}"/${name} ] || continue
  [ -x "\${__p:-.}"/${name} ] || { __o=77; continue; }
  __o=0; break
done
unset IFS; set +f
[ "$__o" = 0 ] || __fail "$__o"`
}

/** A path that starts with a dash would be parsed as an option. */
function runnable(cmd: string): string {
  return cmd.startsWith('-') && cmd.includes('/') ? `./${cmd}` : cmd
}

/** The process id with its start time, because ids are reused. */
const begin = `read -r __l <"/proc/$$/stat"; set -- \${__l##*) }; shift 19
echo "$$ $1" >"$__d/pid"
echo "ok $$" 1<>"$__d/ready"
unset __d __l __o __p OLDPWD; unset -f __fail`

/** Prefers bash if the image has it. */
export const loginShell = {
  cmd: 'sh',
  args: ['-c', 'if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi'],
}
