import { createHmac } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Services } from '../../http/services.ts'
import { type Caller, hashOf, sameHash } from '../../keys/index.ts'
import { linkSecret } from '../../ports/index.ts'

/** execd's documented header. The endpoint response also names it. */
export const accessHeader = 'X-EXECD-ACCESS-TOKEN'

/**
 * A token that gives a key access to the servers in one sandbox. OpenSandbox's SDKs send only the headers that the
 * endpoint response names, and that response must not contain the key itself. The token is a signature of sandbox and
 * key. It is not stored, and revoking the key revokes it.
 */
export async function accessToken({ config }: Services, sandboxId: string, keyId: string): Promise<string> {
  const secret = await linkSecret(config.data_dir)
  const signature = createHmac('sha256', secret).update(`opensandbox access ${sandboxId} ${keyId}`)
  return `${keyId}.${signature.digest('base64url')}`
}

/** Authenticates a request to a server in a sandbox, by a token for this sandbox or by an API key. */
export async function callerInside(services: Services, request: FastifyRequest): Promise<Caller> {
  const given = request.headers[accessHeader.toLowerCase()]
  const { id = '' } = request.params as { id?: string }
  const [keyId = ''] = typeof given === 'string' ? given.split('.') : []
  const token = await accessToken(services, id, keyId)
  if (typeof given !== 'string' || !sameHash(hashOf(given), hashOf(token)))
    return callerByKey(services, request)
  const session = await services.sessions.lookup(id)
  const caller = session && (await services.keys.callerOf(session.project_id, keyId, request.id))
  return caller ?? callerByKey(services, request)
}

export function callerByKey({ keys }: Services, { headers, id }: FastifyRequest): Promise<Caller> {
  const given = headers['open-sandbox-api-key'] ?? headers[accessHeader.toLowerCase()]
  return keys.authenticate(typeof given === 'string' ? `Bearer ${given}` : headers.authorization, id)
}
