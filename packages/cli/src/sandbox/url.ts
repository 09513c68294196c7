import type { EndpointProtocol } from '@sandkasten/sdk'
import { SandboxError } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { endings } from '../steer.ts'
import { print } from '../table.ts'
import { holding } from './hold.ts'

export interface UrlOptions {
  protocol?: EndpointProtocol
  json?: boolean
}

/** Prints the address of a port. If this process forwards the port, does so until Ctrl-C. */
export function url(name: string, portText: string, { protocol, json }: UrlOptions): Promise<number> {
  const port = Number(portText)
  if (!Number.isInteger(port))
    throw new SandboxError('invalid_argument', 'The port is not a number.', {
      hint: 'For example: sandkasten sandbox url NAME 3000.',
    })
  return holding(name, { purpose: `url ${port}` }, async ({ handle, signal }) => {
    const endpoint = await handle.getEndpoint(port, protocol === undefined ? {} : { protocol })
    print(json, endpoint, () => endpoint.url)
    if (!json)
      for (const [header, value] of Object.entries(endpoint.headers))
        say(`Send with every request: ${header}: ${value}`)
    if (!endpoint.forwarded) return 0
    say('This command forwards the port: the address works until Ctrl-C.')
    return untilEnded(signal)
  })
}

function untilEnded(signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    // The forwarded port alone does not keep this process running.
    const running = setInterval(() => {}, 60_000)
    const end = (settle: () => void) => {
      clearInterval(running)
      settle()
    }
    for (const ending of endings) process.once(ending, () => end(() => resolve(0)))
    signal.addEventListener('abort', () => end(() => reject(signal.reason)), { once: true })
  })
}
