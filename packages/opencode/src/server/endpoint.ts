import { type SandboxCore, type SandboxEndpoint, SandboxError, supports } from '@sandkasten/sdk'
import { basicAuth } from '../http/basic.ts'

export async function endpointOf(
  handle: SandboxCore,
  port: number,
  signal: AbortSignal,
): Promise<SandboxEndpoint> {
  if (!supports(handle, 'ports'))
    throw new SandboxError(
      'unsupported',
      `The provider “${handle.provider}” cannot reach a port of the sandbox.`,
      {
        provider: handle.provider,
        details: { ability: 'ports' },
        hint: 'Use a provider with the ability `ports`, or an agent without a server.',
      },
    )
  return handle.getEndpoint(port, { signal })
}

export function headersOf(endpoint: SandboxEndpoint, user: string, password: string): Record<string, string> {
  return { ...endpoint.headers, authorization: basicAuth(user, password) }
}
