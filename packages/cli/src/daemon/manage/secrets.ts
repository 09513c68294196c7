import { SandboxError } from '@sandkasten/sdk'
import { say } from '../../errors.ts'
import { timeText } from '../../format.ts'
import { print, table } from '../../table.ts'
import { type ConnectOptions, connect } from '../client/api.ts'
import { pipedInput } from '../client/input.ts'
import { forEach } from '../each.ts'
import { given } from './sessions.ts'

interface Secret {
  name: string
  version: number
  hosts: string[] | null
  updated_at: string
}

export interface SecretOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
}

export interface SetSecretOptions extends SecretOptions {
  value?: string
  host?: string[]
}

const mostBytes = 65_536

export async function setSecret(name: string, options: SetSecretOptions): Promise<number> {
  const connection = await connect(options)
  const body = given({ value: await readValue(name, options), hosts: options.host })
  const secret = await connection.json<Secret>('PUT', pathOf(name), body)
  print(options.json, secret, () => `${secret.name} has version ${secret.version}`)
  return 0
}

export async function listSecrets(options: SecretOptions): Promise<number> {
  const { secrets } = await (await connect(options)).json<{ secrets: Secret[] }>('GET', '/v1/secrets')
  print(options.json, secrets, () =>
    table(
      [{ title: 'NAME', min: 8 }, 'VERSION', { title: 'HOSTS', drop: 1 }, { title: 'CHANGED', drop: 2 }],
      secrets.map(({ name, version, hosts, updated_at }) => [
        name,
        String(version),
        hosts?.join(', ') ?? 'any',
        timeText(updated_at, options),
      ]),
    ),
  )
  return 0
}

export async function removeSecrets(names: readonly string[], options: SecretOptions): Promise<number> {
  const connection = await connect(options)
  return forEach(names, options, async (name) => {
    await connection.json('DELETE', pathOf(name))
    return { facts: { name, deleted: true }, text: `${name} deleted` }
  })
}

export async function rotateKey(options: SecretOptions): Promise<number> {
  const connection = await connect(options)
  const rotated = await connection.json<{ key_id: string; values: number }>(
    'POST',
    '/v1/secret-key/rotate',
    {},
  )
  print(options.json, rotated, () => `A new key encrypts ${rotated.values} values.`)
  return 0
}

/** From the flag, then from stdin, then from a prompt without echo. */
async function readValue(name: string, { value, json }: SetSecretOptions): Promise<string> {
  if (value !== undefined) {
    // Hides the arguments from `ps`; until now, other accounts could see them.
    process.title = 'sandkasten secrets set'
    say(
      'sandkasten: --value on the command line can be seen in the list of processes and in the shell’s history. Better: leave it out and type it when asked, or pipe it.',
    )
    return value
  }
  if (pipedInput()) return fromStdin()
  if (!json && process.stdin.isTTY && process.stderr.isTTY) return askFor(name)
  throw new SandboxError('invalid_argument', `The secret ${name} has no value.`, {
    hint: 'Pipe it, as in: sandkasten secrets set NAME < FILE.',
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

function pathOf(name: string): string {
  return `/v1/secrets/${encodeURIComponent(name)}`
}
