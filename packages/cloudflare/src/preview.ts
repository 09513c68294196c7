/**
 * Preview URLs with bindings that are not called `Sandbox`. For use inside a Worker: this module imports nothing.
 *
 * The SDK's `proxyToSandbox` looks only at `env.Sandbox`, and a preview host name carries the sandbox's key but not its
 * binding:   8080-shell-u42-a1b2c3.example.com   is   <port>-<key>-<token>.
 * So the key says it: keys are made by `sandboxKey(prefix, id)` and begin with their binding's prefix. The same prefix
 * keeps two kinds of tenants apart, and the check keeps an id from reaching into another's keys.
 */

type ProxyToSandbox = (request: Request, env: never) => Promise<Response | null>

/** Prefix → binding, for example `{ shell: env.SHELL_SANDBOX, python: env.PYTHON_SANDBOX }`. */
export type PreviewRoutes = { [prefix: string]: unknown }

/**
 * A key for `getSandbox`: `<prefix>-<id>`. Keys are the only wall between tenants, so the id must come from an
 * authenticated session, never from the request as it is. Throws for anything that is not lower-case letters and digits
 * in groups joined by single dashes, and for what a host name cannot hold.
 */
export function sandboxKey(prefix: string, id: string): string {
  if (!/^[a-z][a-z0-9]*$/.test(prefix))
    throw new Error(`“${prefix}” is no key prefix: a–z and digits, a letter first`)
  if (!/^[a-z0-9]+(-[a-z0-9]+)*$/.test(id))
    throw new Error('a sandbox id is lower-case letters, digits and single dashes')
  const key = `${prefix}-${id}`
  // 63 for a host name's label, less the port, the token and two dashes.
  if (key.length > 40)
    throw new Error(`the sandbox key is ${key.length} characters long; 40 fit into a preview host name`)
  return key
}

/** Answers a preview request from the binding that its key names; null when it is none, as `proxyToSandbox` does. */
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
