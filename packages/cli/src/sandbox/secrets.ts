import type { SecretChange } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { forEach } from '../daemon/each.ts'
import { say } from '../errors.ts'
import { timeText } from '../format.ts'
import { secretValueOf, type ValueOptions } from '../secret-value.ts'
import { print, table } from '../table.ts'
import { openHere } from './open.ts'
import { reportItem } from './report.ts'

export interface SecretOptions {
  json?: boolean
  iso?: boolean
}

export async function setSecret(name: string, options: SecretOptions & ValueOptions): Promise<number> {
  const value = await secretValueOf(name, 'sandkasten sandbox secret set', options)
  await using opened = await openHere()
  const { sandboxes, failed, ...secret } = await opened.registry.secrets.put(name, value)
  print(
    options.json,
    { ...secret, sandboxes },
    () => `${name} has version ${secret.version}${usedBy(sandboxes)}`,
  )
  return reportFailed(failed)
}

export async function listSecrets(options: SecretOptions): Promise<number> {
  await using opened = await openHere()
  const secrets = await opened.registry.secrets.list()
  const rows = () =>
    secrets.map(({ name, version, updatedAt }) => [
      name,
      String(version),
      timeText(updatedAt.toISOString(), options),
    ])
  if (secrets.length === 0 && !options.json)
    say('No secrets yet. Set one: sandkasten sandbox secret set NAME')
  else
    print(options.json, secrets, () =>
      table([{ title: 'NAME', min: 8 }, 'VERSION', { title: 'CHANGED', drop: 1 }], rows()),
    )
  return 0
}

export async function deleteSecrets(names: readonly string[], options: SecretOptions): Promise<number> {
  await using opened = await openHere()
  return await forEach(
    names,
    options,
    async (name) => {
      const { existed, sandboxes, failed } = await opened.registry.secrets.delete(name)
      if (!existed)
        throw new SandboxError('not_found', `There is no secret “${name}”.`, {
          hint: 'See sandkasten sandbox secret list.',
        })
      reportFailed(failed)
      return { facts: { name, deleted: true, sandboxes }, text: `${name} deleted${usedBy(sandboxes)}` }
    },
    reportItem,
  )
}

function usedBy(sandboxes: readonly string[]): string {
  return sandboxes.length === 0 ? '' : `; it is in the network of ${sandboxes.join(', ')}`
}

/** The secret is stored, but these sandboxes may not have it. Returns the exit code. */
function reportFailed(failed: SecretChange['failed']): number {
  let code = 0
  for (const { sandbox, error } of failed) {
    say(`sandkasten: ${sandbox} may still use the earlier value.`)
    code = reportItem(error)
  }
  return code
}
