/** All that this Worker does with its sandboxes. */
import { getSandbox, proxyToSandbox } from '@cloudflare/sandbox'
import { probeSandbox } from '@sandkasten/cloudflare/healthcheck'
import { proxyToSandboxes, sandboxKey } from '@sandkasten/cloudflare/preview'

export type Kind = 'shell' | 'python'

/** The answer of a port inside of a sandbox, or null when the request is not for one. */
export function preview(request: Request, env: Env): Promise<Response | null> {
  const routes = { shell: env.SHELL_SANDBOX, python: env.PYTHON_SANDBOX }
  return proxyToSandboxes(request, routes, proxyToSandbox)
}

/** The key is the only wall between users: it is made from who they are, never from what they send. */
export function sandboxOf(kind: Kind, user: string, env: Env) {
  const binding = kind === 'shell' ? env.SHELL_SANDBOX : env.PYTHON_SANDBOX
  return getSandbox(binding, sandboxKey(kind, user))
}

/** Ends the container with its files and processes. The next call for the same user starts a fresh one. */
export function destroy(kind: Kind, user: string, env: Env): Promise<void> {
  return sandboxOf(kind, user, env).destroy()
}

/** 'healthy', 'asleep', 'unhealthy' or 'timeout'; `wake: true` would start a sleeping one to ask it. */
export function health(kind: Kind, user: string, env: Env) {
  return probeSandbox(sandboxOf(kind, user, env), { timeoutMs: 5_000 })
}
