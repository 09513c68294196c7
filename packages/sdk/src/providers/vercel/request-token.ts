/**
 * The OIDC token of the request that a Vercel function is handling, or undefined elsewhere. Vercel sends it as the header
 * `x-vercel-oidc-token`, and offers the current request's headers through this symbol. Concurrent requests have separate
 * contexts, so this never returns the token of another one. `@vercel/oidc` reads the same place.
 */
export function vercelRequestToken(): string | undefined {
  const holder = (globalThis as { [requestContext]?: { get?(): RequestContext | undefined } })[requestContext]
  const token = holder?.get?.()?.headers?.['x-vercel-oidc-token']
  return typeof token === 'string' && token !== '' ? token : undefined
}

const requestContext = Symbol.for('@vercel/request-context')

interface RequestContext {
  readonly headers?: Readonly<Record<string, unknown>>
}
