import { createHmac, timingSafeEqual } from 'node:crypto'
import { SandboxError } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { type Caller, includes, type Scope } from '../../keys/index.ts'
import { linkSecret } from '../../ports/index.ts'
import type { Session } from '../../sessions/index.ts'
import type { FrontPlace } from '../front.ts'
import { recordOf } from './views.ts'

/**
 * URLs of one file that need no key. The client gets a sandbox's signing key once and signs by itself:
 *
 *     /files/download?path=…&expires=…&signature=v1_…      HMAC(signing key, "v1:files:GET:<path>:<expires>"); 0 never expires
 *
 * A signing key is not stored. It is a signature of the sandbox, the API key and a rotation counter. So a URL has the
 * scopes of the API key that requested the signing key, and revoking that key revokes the URL.
 */
const signed = z.object({
  path: z.string().min(1),
  expires: z.string().regex(/^\d{1,12}$/),
  signature: z.string().regex(/^v1_[\w-]{43}$/),
})

export async function signingKeyOf(place: FrontPlace, session: Session, caller: Caller): Promise<string> {
  const { signingRound = 0 } = await recordOf(place, session)
  return keyFor(place, session, await place.services.keys.lastingId(caller), signingRound)
}

/** The caller of a signed URL; undefined for a request without a signature. */
export async function signedBy(
  place: FrontPlace,
  request: FastifyRequest,
  scope: Scope,
): Promise<Caller | undefined> {
  if ((request.query as { signature?: unknown }).signature === undefined) return undefined
  const { data } = signed.safeParse(request.query)
  if (!data || (data.expires !== '0' && Number(data.expires) * 1000 <= Date.now())) throw noAccess()
  const { keys, sessions } = place.services
  const session = await sessions.lookup((request.params as { id: string }).id)
  if (!session) throw noAccess()
  const { signingRound = 0 } = await recordOf(place, session)
  const text = `v1:files:${request.method}:${data.path}:${data.expires}`
  for (const id of await keys.usableIds(session.project_id)) {
    const made = createHmac('sha256', await keyFor(place, session, id, signingRound)).update(text)
    if (!timingSafeEqual(Buffer.from(`v1_${made.digest('base64url')}`), Buffer.from(data.signature))) continue
    const caller = await keys.callerOf(session.project_id, id, request.id)
    if (caller && includes(caller.scopes, scope)) return caller
  }
  throw noAccess()
}

async function keyFor(place: FrontPlace, { id }: Session, keyId: string, round: number): Promise<string> {
  const secret = await linkSecret(place.services.config.data_dir)
  return createHmac('sha256', secret).update(`daytona files ${id} ${keyId} ${round}`).digest('base64url')
}

function noAccess(): SandboxError {
  return new SandboxError('unauthenticated', 'The signature is not valid, or has expired')
}
