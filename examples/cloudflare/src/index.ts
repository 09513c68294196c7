/** A Worker with two kinds of sandboxes: `POST` runs a command, `DELETE` ends the sandbox, `GET /health` checks it. */
import { destroy, health, preview, sandboxOf } from './sandboxes.ts'

// Cloudflare finds the classes by these names. ContainerProxy serves outbound handlers and bucket mounts.
export { ContainerProxy } from '@cloudflare/sandbox'
export { default as PythonSandbox } from './server/python.sandbox.ts'
export { default as ShellSandbox } from './server/shell.sandbox.ts'

const MAX_COMMAND_LENGTH = 10_000
const COMMAND_TIMEOUT_MS = 30_000

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const previewed = await preview(request, env)
    if (previewed) return previewed

    const user = authenticate(request, env)
    if (!user) return new Response('unauthenticated', { status: 401 })
    const { pathname } = new URL(request.url)
    if (pathname === '/health') return Response.json(await health('shell', user, env))
    const kind = pathname.slice(1)
    if (!['POST', 'DELETE'].includes(request.method) || (kind !== 'shell' && kind !== 'python')) {
      return new Response('POST or DELETE /shell or /python', { status: 404 })
    }
    if (request.method === 'DELETE') {
      await destroy(kind, user, env)
      return new Response(null, { status: 204 })
    }
    const command = await request.text()
    if (command.length > MAX_COMMAND_LENGTH) return new Response('too long', { status: 413 })
    const { stdout, stderr, exitCode } = await sandboxOf(kind, user, env).exec(command, {
      timeout: COMMAND_TIMEOUT_MS,
    })
    return Response.json({ stdout, stderr, exitCode })
  },
}

function authenticate(request: Request, env: Env): string | undefined {
  const token = request.headers.get('authorization')?.replace(/^Bearer /, '') ?? ''
  const users: { [token: string]: string } = JSON.parse(env.API_TOKENS)
  return Object.hasOwn(users, token) ? users[token] : undefined
}
