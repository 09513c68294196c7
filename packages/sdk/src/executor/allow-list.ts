import { SandboxError } from '../errors.ts'
import type { Environment } from '../spec/index.ts'

/**
 * Which programs may be started by name.
 *
 * This is a guard rail, not isolation: it stops a model from starting unintended programs. A command is a program
 * name with arguments and no shell parses it, so `ls; rm` is the name of a missing program. Paths in names, variables
 * that change the meaning of a name, and programs that start other programs are rejected.
 * An allowed interpreter (python3, node) can do everything that its account can.
 */
export class AllowList {
  readonly #names: ReadonlySet<string>

  constructor(names: readonly string[]) {
    for (const name of names) {
      if (!/^[\w.+-]+$/.test(name))
        throw refusal(`“${name}” is not a program name.`, 'List names only, without paths or arguments.')
      if (launchers.has(name)) {
        throw refusal(
          `“${name}” can start any other program, so a list with it allows everything.`,
          "Remove it, or set allowedCommands: 'any' explicitly.",
        )
      }
    }
    this.#names = new Set(names)
  }

  check(command: string, env: Environment | undefined): void {
    if (!this.#names.has(command)) {
      throw refusal(
        `The command “${command}” is not allowed.`,
        `Allowed are: ${[...this.#names].join(', ')}. Change allowedCommands to allow more.`,
      )
    }
    const variable = Object.keys(env ?? {}).find(
      (name) => env?.[name] !== undefined && redirecting.test(name),
    )
    if (variable)
      throw refusal(
        `The variable ${variable} is not allowed: it changes which program runs.`,
        `Remove ${variable} from env.`,
      )
  }
}

/** Programs that work on files, and two interpreters; none of them starts another program. */
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

/** Search paths, preloaded libraries and start-up hooks of interpreters. */
const redirecting =
  /^(PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|LD_.*|DYLD_.*|GCONV_PATH|NODE_OPTIONS|NODE_PATH|PYTHON.*|PERL.*|RUBY.*|GIT_.*|BASH_FUNC_.*)$/i

function refusal(message: string, hint: string): SandboxError {
  return new SandboxError('forbidden', message, { hint })
}
