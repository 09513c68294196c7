import { SandboxError } from '@sandkasten/sdk'
import { neededPort } from '../shared/request.ts'
import { type Call, type Entry, found, optional } from './entry.ts'
import { signingKeyOf } from './signed-urls.ts'
import { recordOf, remember, sandboxView } from './views.ts'

/** The longest lifetime of a preview token. */
const daySeconds = 86_400

/**
 * Ports of a sandbox. A token is a signed link of our own previews (`ports/signed-links.ts`). It is not stored, and a
 * new generation of the port revokes all of them. The preview listener also accepts it in the vendor's header.
 */
export function previewRoutes(entry: Entry): void {
  entry.add('GET', '/api/sandbox/:id/ports/:port/preview-url', 'exec', async (call) => {
    const { sandboxId, url, token } = await opened(call, daySeconds)
    return { sandboxId, url, token }
  })

  entry.add('GET', '/api/sandbox/:id/ports/:port/signed-preview-url', 'exec', async (call) => {
    const seconds = Number(optional(call, 'expiresInSeconds') ?? 60)
    if (!Number.isFinite(seconds) || seconds < 1 || seconds > daySeconds)
      throw new SandboxError('invalid_argument', `expiresInSeconds must be from 1 to ${daySeconds}`)
    const { sandboxId, port, signed, token } = await opened(call, seconds)
    return { sandboxId, port, token, url: signed }
  })

  // Revokes all tokens of the port, because a single one cannot be revoked.
  entry.add('POST', '/api/sandbox/:id/ports/:port/signed-preview-url/:token/expire', 'exec', async (call) => {
    const { id } = await found(call)
    await call.place.services.ports.open(call.caller, id, { port: neededPort(call), rotate: true })
  })

  entry.add('POST', '/api/sandbox/:id/public/:value', 'exec', async (call) => {
    const session = await found(call)
    const isPublic = call.params.value === 'true'
    const { ports } = call.place.services
    const record = await remember(call.place, session, { public: isPublic })
    for (const { port, row } of await ports.list(call.caller, session.id))
      if (row)
        await ports.open(call.caller, session.id, { port, visibility: isPublic ? 'public' : 'private' })
    return sandboxView(call.place, session, record)
  })

  entry.add('GET', '/api/sandbox/:id/signing-key', 'read', async (call) =>
    signingKeyOf(call.place, await found(call), call.caller),
  )
  entry.add('POST', '/api/sandbox/:id/signing-key/rotate', 'exec', async (call) => {
    const session = await found(call)
    const { signingRound = 0 } = await recordOf(call.place, session)
    await remember(call.place, session, { signingRound: signingRound + 1 })
    return signingKeyOf(call.place, session, call.caller)
  })
}

async function opened(call: Call, seconds: number) {
  const { place, caller } = call
  call.request.changes = true
  const session = await found(call)
  const port = neededPort(call)
  const record = await recordOf(place, session)
  const { ports, config } = place.services
  await ports.open(caller, session.id, { port, visibility: record.public ? 'public' : 'private' })
  const link = await ports.link(caller, session.id, String(port), {
    expiresInMs: seconds * 1000,
    path: '/',
  })
  // Without a configured domain, names such as 3000-id.localhost resolve only in browsers.
  const named = config.domain === undefined ? undefined : ports.addresses!.url(session.id, port)
  return {
    sandboxId: session.id,
    port,
    url: named ?? ports.addresses!.pathUrl(session.id, port),
    signed: named ? link.url! : link.pathUrl,
    token: link.token,
  }
}
