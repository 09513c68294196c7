import { timeText } from '../../format.ts'
import { secretValueOf, type ValueOptions } from '../../secret-value.ts'
import { print, table } from '../../table.ts'
import { type ConnectOptions, connect } from '../client/api.ts'
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

export interface SetSecretOptions extends SecretOptions, ValueOptions {
  host?: string[]
}

export async function setSecret(name: string, options: SetSecretOptions): Promise<number> {
  const connection = await connect(options)
  const body = given({
    value: await secretValueOf(name, 'sandkasten secrets set', options),
    hosts: options.host,
  })
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

function pathOf(name: string): string {
  return `/v1/secrets/${encodeURIComponent(name)}`
}
