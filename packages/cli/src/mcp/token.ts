import { createPlace, Handles, SavedTokens } from '@sandkasten/mcp/broker'
import type { SandboxRecord, ScopedRegistry } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { openHere } from '../sandbox/open.ts'
import { brokerHere } from './place.ts'
import { type SandboxChoice, savedName } from './program.ts'

export interface TokenOptions {
  providerSandbox?: string
  save?: boolean
  revoke?: boolean
}

export async function token(sandbox: string | undefined, options: TokenOptions): Promise<number> {
  const choice: SandboxChoice = { sandbox, providerSandbox: options.providerSandbox }
  const saved = savedName(choice)
  const place = await brokerHere()
  await createPlace(place)
  const [handles, tokens] = [new Handles(place.handles), new SavedTokens(place.tokens)]
  await using opened = await openHere()
  const { id: sandboxId, name } = await recordOf(opened.sandboxes, choice)
  if (options.revoke) {
    await tokens.remove(saved)
    const count = await handles.revokeAll(sandboxId)
    say(`sandkasten: ${count} ${count === 1 ? 'token' : 'tokens'} of “${name}” revoked.`)
    return 0
  }
  const made = await handles.create({ sandboxId, name, scope: opened.sandboxes.scope })
  console.log(options.save ? await tokens.save(saved, made) : made)
  return 0
}

async function recordOf(sandboxes: ScopedRegistry, choice: SandboxChoice): Promise<SandboxRecord> {
  if (choice.sandbox !== undefined) return sandboxes.get(choice.sandbox)
  const id = choice.providerSandbox!
  const records = await sandboxes.list()
  const record = records.find(
    ({ provider, providerSandboxId }) =>
      providerSandboxId !== undefined &&
      (id === providerSandboxId || id === `${provider}:${providerSandboxId}`),
  )
  if (record) return record
  throw new SandboxError('not_found', `No sandbox of the registry has the provider’s id “${id}”.`, {
    hint: 'Only sandboxes of sandkasten sandbox create can be served: sandkasten sandbox list.',
  })
}
