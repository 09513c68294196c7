import { invalid } from '../../../core/validate.ts'
import { quoteArg, quoteArgs } from '../../../shared/quote.ts'

/**
 * Shell scripts that become programs. They take no arguments, so a process list shows nothing of them, and they remove
 * themselves first. Each reports on the fifo `ready` whether the program could start.
 */
export interface Launch {
  /** An absolute path. */
  readonly cwd: string
  /** `cwd` must be below this folder. */
  readonly workdir: string
  readonly env: Readonly<Record<string, string>>
  /** `sandbox/incarnation/id/`. Descendants of the program inherit it. */
  readonly mark: string
}

export function programScript(launch: Launch, cmd: string, args: readonly string[]): string {
  return `rm -f ./spec\n${head(launch)}\n${lookUp(cmd)}\n${begin}\nexec ${quoteArgs([runnable(cmd), ...args])}\n`
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

/** Kept while the shell is open. If bash ends, this script restarts it in its last folder. */
export function shellScript(launch: Launch): string {
  const last = `__w=$(cat cwd; printf x); __w=\${__w%?x}`
  return `${last}\n${head(launch, '"$__w"')}\n${lookUp('bash')}\n${begin}\nunset __w\nexec bash --noprofile --norc -s\n`
}

/** Throws if a shell cannot set a variable with this name. */
export function checkVariables(env: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(env))
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw invalid(
        `\`env\` has the name ${JSON.stringify(name)}, which the host’s shell cannot set.`,
        'Use letters, digits and underscores.',
      )
}

function head({ cwd, workdir, env, mark }: Launch, folder = quoteArg(cwd)): string {
  checkVariables(env)
  const variables = Object.entries({ ...env, SANDKASTEN_PROCESS: mark }).map(
    ([name, value]) => `export ${name}=${quoteArg(value)}`,
  )
  return `__d=$PWD
__fail() { echo "fail $1" 1<>"$__d/ready"; exit 1; }
umask "\${SANDKASTEN_UMASK:-022}"
unset SANDKASTEN_UMASK SANDKASTEN_SUPERVISOR SSH_CLIENT SSH_CONNECTION SSH_TTY CDPATH
${variables.join('\n')}
cd -- ${folder} 2>/dev/null || __fail 75
case "$(pwd -P)/" in ${quoteArg(workdir)}/*) ;; *) __fail 78 ;; esac`
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
unset __d __l __o __p; unset -f __fail`
