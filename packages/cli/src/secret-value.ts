import { SandboxError } from '@sandkasten/sdk'
import { pipedInput } from './daemon/client/input.ts'
import { say } from './errors.ts'

export interface ValueOptions {
  value?: string
  /** The name of a variable that has the value. */
  fromEnv?: string
  json?: boolean
}

const mostBytes = 65_536

/** The value of a secret: from the flag, a variable, stdin, or a prompt without echo. `command` is for hints. */
export async function secretValueOf(
  name: string,
  command: string,
  { value, fromEnv, json }: ValueOptions,
): Promise<string> {
  if (value !== undefined && fromEnv !== undefined)
    throw new SandboxError('invalid_argument', '--value and --from-env cannot be combined.', {
      hint: 'Use --from-env.',
    })
  if (value !== undefined) {
    // Hides the arguments from `ps`; until now, other accounts could see them.
    process.title = command
    say(
      'sandkasten: --value on the command line can be seen in the list of processes and in the shell’s history. Better: leave it out and type it when asked, or pipe it.',
    )
    return value
  }
  if (fromEnv !== undefined) return fromVariable(fromEnv)
  if (pipedInput()) return fromStdin()
  if (!json && process.stdin.isTTY && process.stderr.isTTY) return askFor(name)
  throw new SandboxError('invalid_argument', `The secret ${name} has no value.`, {
    hint: `Pipe it, as in: ${command} NAME < FILE.`,
  })
}

function fromVariable(variable: string): string {
  const value = process.env[variable]
  if (value) return value
  throw new SandboxError('invalid_argument', 'The variable that --from-env names is not set.', {
    hint: 'Pass the name of a variable, not the value itself, and export the variable.',
  })
}
async function fromStdin(): Promise<string> {
  let text = ''
  process.stdin.setEncoding('utf8')
  for await (const chunk of process.stdin) {
    text += chunk
    if (text.length > mostBytes)
      throw new SandboxError('too_large', 'stdin is too long for a secret.', { hint: 'Pipe only the value.' })
  }
  // `echo` and editors end the last line.
  return text.replace(/\r?\n$/, '')
}

async function askFor(name: string): Promise<string> {
  const { isCancel, password } = await import('@clack/prompts')
  const answer = await password({
    input: process.stdin,
    output: process.stderr,
    withGuide: false,
    message: `The value of ${name}`,
    validate: (text) => (text?.trim() ? undefined : 'Type a value, or press Ctrl-C.'),
    // Not even the length is shown.
    mask: '',
  })
  if (isCancel(answer)) throw new SandboxError('aborted', 'Interrupted.')
  return answer
}
