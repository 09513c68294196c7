import { isAbsolute, resolve } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/** The source of an image, as a user writes it. */
export type Reference =
  | { readonly kind: 'registry'; readonly name: string; readonly host?: string; readonly digest?: string }
  | {
      readonly kind: 'oci' | 'docker-archive'
      /** As the caller wrote it, with an absolute path. The store uses it if the image has no other name. */
      readonly name: string
      readonly path: string
    }

const TRANSPORTS = { oci: 'oci', 'oci-archive': 'oci', 'docker-archive': 'docker-archive' } as const

/**
 * Parses `python`, `registry:5000/team/tool:1.2`, `python@sha256:…`, `oci:/path`, `docker-archive:/path`. The default
 * tag is `latest`.
 */
export function parseReference(text: string): Reference {
  const transport = /^(oci|oci-archive|docker-archive):(.+)$/s.exec(text)
  if (transport) {
    const path = resolve(transport[2]!)
    return {
      kind: TRANSPORTS[transport[1] as keyof typeof TRANSPORTS],
      name: `${transport[1]}:${path}`,
      path,
    }
  }
  const match = new RegExp(`^(?:(${HOST})/)?(${PATH})(?::(${TAG}))?(?:@(${DIGEST}))?$`).exec(text)
  if (!match || text.length > 500 || isAbsolute(text))
    throw new SandboxError('invalid_argument', `“${shown(text)}” is not a valid image name.`, {
      hint: 'Use a name such as python:3.12 or name@sha256:…, oci:/path, docker-archive:/path, `host`, or the absolute path of a root file system.',
    })
  const [, host, path, tag, digest] = match
  const base = host ? `${host}/${path}` : path!
  const name = digest ? `${base}@${digest}` : `${base}:${tag ?? 'latest'}`
  return { kind: 'registry', name, host, digest }
}

/** Only a registry on this machine's loopback is used without TLS. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/:\d+$/, '')
  return name === 'localhost' || name === '[::1]' || /^127(\.\d{1,3}){3}$/.test(name)
}

/** Untrusted text, made safe for a message. */
export function shown(text: string): string {
  return text.replace(/\p{Cc}/gu, '?').slice(0, 200)
}

// A first part with a dot or a port, or `localhost`, is a registry; anything else is part of the name.
const HOST =
  '(?:localhost|\\[[0-9a-fA-F:]+\\]|[A-Za-z0-9-]+(?:\\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:\\d))(?::\\d{1,5})?'
const PART = '[a-z0-9]+(?:(?:\\.|_{1,2}|-+)[a-z0-9]+)*'
const PATH = `${PART}(?:/${PART})*`
const TAG = '[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}'
const DIGEST = 'sha256:[0-9a-f]{64}'

/** The name without its tag or digest. */
export const repositoryOf = (name: string) => name.replace(/@.*$|:[^:/]*$/, '')
