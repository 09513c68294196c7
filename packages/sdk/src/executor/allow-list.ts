import { SandboxError } from '../errors.ts'

/**
 * Which programs may be started by name.
 *
 * It is a guard rail, not a wall: it stops a model from starting what nobody meant it to start. It holds because a
 * command is a program name and its arguments, never a line for a shell to take apart, so `ls; rm` is the name of
 * a program that does not exist; because a name with a path in it is refused; because variables that change what
 * a name means are refused; and because programs whose purpose is to start other programs cannot be put on it.
 * An interpreter on the list (python3, node) can of course do whatever its account can.
 */
export class AllowList {
  readonly #names: ReadonlySet<string>

  constructor(names: readonly string[]) {
    for (const name of names) {
      if (!/^[\w.+-]+$/.test(name))
        throw refusal(`“${name}” is not a program name.`, 'List names only, without paths or arguments.')
      if (launchers.has(name)) {
        throw refusal(
          `“${name}” starts any program that it is told to, so a list with it allows everything.`,
          "Leave it out, or say so openly with allowedCommands: 'any'.",
        )
      }
    }
    this.#names = new Set(names)
  }

  check(command: string, env: Readonly<Record<string, string>> | undefined): void {
    if (!this.#names.has(command)) {
      throw refusal(
        `The command “${command}” is not allowed.`,
        `Allowed are: ${[...this.#names].join(', ')}. Change allowedCommands to allow more.`,
      )
    }
    const variable = Object.keys(env ?? {}).find((name) => redirecting.test(name))
    if (variable)
      throw refusal(
        `The variable ${variable} is not allowed: it changes which program runs.`,
        `Leave ${variable} out of env.`,
      )
  }
}

/** Programs that read, make and change files, and two interpreters; none of them starts another. */
export const defaultAllowedCommands: readonly string[] = [
  'basename',
  'cat',
  'cmp',
  'comm',
  'cp',
  'cut',
  'date',
  'diff',
  'dirname',
  'du',
  'echo',
  'expr',
  'false',
  'file',
  'fold',
  'grep',
  'head',
  'jq',
  'ln',
  'ls',
  'md5sum',
  'mkdir',
  'mv',
  'nl',
  'node',
  'od',
  'paste',
  'printf',
  'pwd',
  'python3',
  'realpath',
  'rm',
  'rmdir',
  'seq',
  'sha256sum',
  'sleep',
  'sort',
  'stat',
  'tac',
  'tail',
  'tee',
  'test',
  'touch',
  'tr',
  'true',
  'uniq',
  'wc',
]

const launchers: ReadonlySet<string> = new Set([
  'ash',
  'awk',
  'bash',
  'busybox',
  'chroot',
  'chrt',
  'cmd',
  'csh',
  'dash',
  'doas',
  'ed',
  'env',
  'ex',
  'exec',
  'expect',
  'find',
  'fish',
  'flock',
  'gawk',
  'gdb',
  'ionice',
  'ksh',
  'less',
  'm4',
  'make',
  'man',
  'mawk',
  'mksh',
  'more',
  'nice',
  'nohup',
  'nsenter',
  'parallel',
  'powershell',
  'pwsh',
  'rbash',
  'runuser',
  'screen',
  'script',
  'sed',
  'setpriv',
  'setsid',
  'sh',
  'ssh',
  'start-stop-daemon',
  'stdbuf',
  'strace',
  'su',
  'sudo',
  'systemd-run',
  'tar',
  'taskset',
  'tcsh',
  'time',
  'timeout',
  'tmux',
  'toybox',
  'unshare',
  'vi',
  'vim',
  'watch',
  'xargs',
  'zsh',
])

/** Search paths, preloaded libraries and interpreters' start-up hooks. */
const redirecting =
  /^(PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|LD_.*|DYLD_.*|GCONV_PATH|NODE_OPTIONS|NODE_PATH|PYTHON.*|PERL.*|RUBY.*|GIT_.*|BASH_FUNC_.*)$/i

function refusal(message: string, hint: string): SandboxError {
  return new SandboxError('forbidden', message, { hint })
}
