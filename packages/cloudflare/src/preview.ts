/**
 * Preview URLs for bindings that are not named `Sandbox`. For use inside a Worker: this module imports nothing.
 *
 * The SDK's `proxyToSandbox` only uses `env.Sandbox`, and a preview host name contains the sandbox's key but not its
 * binding: 8080-shell-u42-a1b2c3.example.com is <port>-<key>-<token>.
 * So the key tells the binding: `sandboxKey(prefix, id)` creates keys that begin with the binding's prefix. The
 * prefix also separates two kinds of tenants, and the check keeps an id from reaching another tenant's keys.
 */

type ProxyToSandbox = (request: Request, env: never) => Promise<Response | null>

/** Prefix → binding, for example `{ shell: env.SHELL_SANDBOX, python: env.PYTHON_SANDBOX }`. */
export type PreviewRoutes = { [prefix: string]: unknown }

/**
 * A key for `getSandbox`: `<prefix>-<id>`. Keys are the only separation between tenants, so the id must come from an
 * authenticated session, never directly from the request.
 * Allows lower-case letters and digits in groups joined by single dashes, and the length of a host name; throws
 * otherwise.
 */
export function sandboxKey(prefix: string, id: string): string {
  if (!/^[a-z][a-z0-9]*$/.test(prefix))
    throw new Error(`“${prefix}” is not a key prefix: use a–z and digits, a letter first`)
  if (!/^[a-z0-9]+(-[a-z0-9]+)*$/.test(id))
    throw new Error('a sandbox id is lower-case letters, digits and single dashes')
  const key = `${prefix}-${id}`
  // A label of a host name has 63 characters, less the port, the token and two dashes.
  if (key.length > 40)
    throw new Error(`the sandbox key is ${key.length} characters long; 40 fit into a preview host name`)
  return key
}

/**
 * Serves a preview request from the binding that its key names. Returns null for other requests, like
 * `proxyToSandbox`.
 */
export async function proxyToSandboxes(
  request: Request,
  routes: PreviewRoutes,
  proxyToSandbox: ProxyToSandbox,
): Promise<Response | null> {
  const prefix = previewPrefix(new URL(request.url).hostname)
  if (prefix === undefined || !Object.hasOwn(routes, prefix)) return null
  return proxyToSandbox(request, { Sandbox: routes[prefix] } as never)
}

function previewPrefix(hostname: string): string | undefined {
  return /^\d{4,5}-([a-z][a-z0-9]*)-[^.]*-[a-z0-9_]+\./.exec(hostname)?.[1]
}
