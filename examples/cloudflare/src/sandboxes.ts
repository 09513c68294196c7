/** Everything that this Worker does with its sandboxes. */
import { getSandbox, proxyToSandbox } from '@cloudflare/sandbox'
import { probeSandbox } from '@sandkasten/cloudflare/healthcheck'
import { proxyToSandboxes, sandboxKey } from '@sandkasten/cloudflare/preview'

export type Kind = 'shell' | 'python'

/** The response of a port inside a sandbox, or null if the request is not for one. */
export function preview(request: Request, env: Env): Promise<Response | null> {
  const routes = { shell: env.SHELL_SANDBOX, python: env.PYTHON_SANDBOX }
  return proxyToSandboxes(request, routes, proxyToSandbox)
}

/** The key is the only separation between users: derive it from the authenticated user, never from the request. */
export function sandboxOf(kind: Kind, user: string, env: Env) {
  const binding = kind === 'shell' ? env.SHELL_SANDBOX : env.PYTHON_SANDBOX
  return getSandbox(binding, sandboxKey(kind, user))
}

/** Ends the container with its files and processes. The next call for the same user starts a new one. */
export function destroy(kind: Kind, user: string, env: Env): Promise<void> {
  return sandboxOf(kind, user, env).destroy()
}

/** 'healthy', 'asleep', 'unhealthy' or 'timeout'; with `wake: true` it starts a sleeping container first. */
export function health(kind: Kind, user: string, env: Env) {
  return probeSandbox(sandboxOf(kind, user, env), { timeoutMs: 5_000 })
}
