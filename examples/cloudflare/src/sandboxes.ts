import { getSandbox, proxyToSandbox } from '@cloudflare/sandbox'
import { probeSandbox } from '@sandkasten/cloudflare/healthcheck'
import { proxyToSandboxes, sandboxKey } from '@sandkasten/cloudflare/preview'

export type Kind = 'shell' | 'python'

/** Forwards a preview request to its sandbox. Returns null for other requests. */
export function preview(request: Request, env: Env): Promise<Response | null> {
  const routes = { shell: env.SHELL_SANDBOX, python: env.PYTHON_SANDBOX }
  return proxyToSandboxes(request, routes, proxyToSandbox)
}

/** The key is the only wall between users. Derive it from the authenticated user, never from the request. */
export function sandboxOf(kind: Kind, user: string, env: Env) {
  const binding = kind === 'shell' ? env.SHELL_SANDBOX : env.PYTHON_SANDBOX
  return getSandbox(binding, sandboxKey(kind, user))
}

/** Ends the container with its files and processes. The next call for this user starts a fresh one. */
export function destroy(kind: Kind, user: string, env: Env): Promise<void> {
  return sandboxOf(kind, user, env).destroy()
}

/** Returns 'healthy', 'asleep', 'unhealthy' or 'timeout'. Does not wake a sleeping container unless `wake: true`. */
export function health(kind: Kind, user: string, env: Env) {
  return probeSandbox(sandboxOf(kind, user, env), { timeoutMs: 5_000 })
}
