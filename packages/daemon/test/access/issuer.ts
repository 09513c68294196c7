import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'

export interface SigningKey {
  readonly kid: string
  readonly alg: string
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
  readonly jwk: JWK
}

export async function signingKey(kid: string, alg = 'ES256'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, alg, privateKey, publicKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } }
}

export const issuer = 'https://login.example.com/'
export const audience = 'sandkasten'

export const now = () => Math.floor(Date.now() / 1000)

/** The claims of a valid token. */
export function claims(changes: JWTPayload = {}): JWTPayload {
  return {
    iss: issuer,
    aud: audience,
    iat: now(),
    exp: now() + 600,
    tenant_id: 'acme',
    subject_id: 'user-1',
    scopes: 'openid read exec',
    ...changes,
  }
}

export function sign(key: SigningKey, payload: JWTPayload = claims(), header: object = {}): Promise<string> {
  return new SignJWT(payload)
    .setProtectedHeader({ alg: key.alg, kid: key.kid, ...header })
    .sign(key.privateKey)
}

export function signSecret(
  secret: string,
  payload: JWTPayload = claims(),
  header: object = {},
): Promise<string> {
  return new SignJWT(payload).setProtectedHeader({ alg: 'HS256', ...header }).sign(Buffer.from(secret))
}

/** A token of three texts, without a valid signature. */
export function rawToken(header: string, payload: string, signature = ''): string {
  return [header, payload, signature].map((text) => Buffer.from(text).toString('base64url')).join('.')
}

export type Behaviour = 'keys' | 'hang' | 'slow body' | 'garbage' | 'huge' | 'error' | 'redirect'

/** A server with a JSON Web Key Set. Set `keys` and `behaviour` at any time. */
export interface KeyServer {
  readonly url: string
  keys: readonly JWK[]
  behaviour: Behaviour
  /** The number of requests. */
  reads: number
  /** Bytes of huge responses that were written. */
  bytes: number
  /** Responses that are not complete. */
  open: number
  close(): Promise<void>
}

export async function startKeyServer(keys: readonly JWK[], port = 0): Promise<KeyServer> {
  const state = { keys, behaviour: 'keys' as Behaviour, reads: 0, bytes: 0, open: 0 }
  const server = createServer((request, response) => {
    state.reads += 1
    state.open += 1
    response.on('close', () => {
      state.open -= 1
    })
    response.on('error', () => {})
    if (request.url?.endsWith('/moved')) return void response.end(JSON.stringify({ keys: state.keys }))
    switch (state.behaviour) {
      case 'keys':
        return void response.end(JSON.stringify({ keys: state.keys }))
      case 'hang':
        return
      case 'slow body':
        return void response.write('{"keys": [')
      case 'garbage':
        return void response.end('<html>not found</html>')
      case 'error':
        return void response.writeHead(500).end('{}')
      case 'redirect':
        return void response.writeHead(302, { location: `${request.url}/moved` }).end()
      case 'huge':
        return void huge()
    }
    function huge() {
      const chunk = Buffer.alloc(65_536, ' ')
      const left = () => state.bytes < 2 ** 30 && !response.destroyed
      const write = () => {
        while (left()) {
          state.bytes += chunk.length
          if (!response.write(chunk)) return void response.once('drain', write)
        }
        response.end()
      }
      write()
    }
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return Object.assign(state, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  })
}
