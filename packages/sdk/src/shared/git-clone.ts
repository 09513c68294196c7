import { SandboxError } from '../errors.ts'

export interface CloneSpec {
  url: string
  token?: string
  username?: string
  branch?: string
  /** Undefined: the full history. */
  depth?: number
  target: string
}

/**
 * Builds a `git clone` whose token exists only in the environment of that process: not in argv, the URL,
 * `.git/config` or on disk.
 * Git gets the password from a credential helper. The helper is a line of shell, configured through GIT_CONFIG_* for
 * this host only, which reads the token from the environment.
 */
export function cloneCommand(spec: CloneSpec): { cmd: string; args: string[]; env: Record<string, string> } {
  const url = checkedUrl(spec)
  const args = ['clone', '--quiet']
  if (spec.depth !== undefined) args.push(`--depth=${spec.depth}`)
  if (spec.branch !== undefined) args.push(`--branch=${spec.branch}`)
  args.push('--', url, spec.target)
  const env: Record<string, string> = { GIT_TERMINAL_PROMPT: '0' }
  const { token: password, username } = spec
  if (password !== undefined) Object.assign(env, gitCredentials(url, { password, username }))
  return { cmd: 'git', args, env }
}

/** Variables that give a git process its password, for the URL's host only. */
export function gitCredentials(
  url: string,
  { username = 'x-access-token', password }: { username?: string; password: string },
): Record<string, string> {
  const { protocol, host } = new URL(url)
  const helper =
    '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$SANDKASTEN_GIT_USER" "$SANDKASTEN_GIT_TOKEN"; }; f'
  return {
    SANDKASTEN_GIT_USER: username,
    SANDKASTEN_GIT_TOKEN: password,
    // The empty value removes all other helpers, which could store the token.
    GIT_CONFIG_COUNT: '2',
    GIT_CONFIG_KEY_0: 'credential.helper',
    GIT_CONFIG_VALUE_0: '',
    GIT_CONFIG_KEY_1: `credential.${protocol}//${host}.helper`,
    GIT_CONFIG_VALUE_1: helper,
  }
}

/** Removes the token from git's output, in every form that a server or git may have echoed. */
export function redact(text: string, token: string | undefined, username = 'x-access-token'): string {
  if (token === undefined) return text
  const basic = base64(`${username}:${token}`)
  const forms = [
    token,
    encodeURIComponent(token),
    basic,
    basic.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', ''),
    base64(token),
  ]
  return forms.reduce((clean, form) => clean.replaceAll(form, '***'), text)
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)))
}

function checkedUrl({ url, token }: CloneSpec): string {
  const normal = /^[\w.-]+\.[a-z]+\/[\w./-]+$/i.test(url) ? `https://${url}` : url
  let parsed: URL | undefined
  try {
    parsed = new URL(normal)
  } catch {
    // An scp-like address (git@host:path) or a local path: git uses the sandbox's own keys.
  }
  if (parsed && (parsed.password !== '' || (parsed.protocol.startsWith('http') && parsed.username !== ''))) {
    throw new SandboxError('invalid_argument', 'The repository address contains credentials.', {
      hint: 'Pass the address without them, and the token as gitToken.',
    })
  }
  if (token === undefined) return normal
  if (parsed?.protocol === 'https:' || (parsed?.protocol === 'http:' && isLoopback(parsed.hostname)))
    return normal
  throw new SandboxError('invalid_argument', 'A git token can only be used with an https:// address.', {
    hint: 'Use the https:// form of the repository address, or omit the token.',
  })
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '127.0.0.1' || host === '[::1]'
}
