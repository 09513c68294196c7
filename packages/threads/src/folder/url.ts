import { type CallOptions, SandboxError, supports } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import { inFolder } from './in-folder.ts'

/** A link to a port that a browser can open without headers. Links to this machine are only for a chat on this machine. */
export function url(
  context: Context,
  threadId: string,
  port: number,
  options: CallOptions = {},
): Promise<string> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new SandboxError('invalid_argument', 'A port is a number from 1 to 65535.')
  return inFolder(context, threadId, { purpose: `url ${port}`, ...options }, async ({ hold, signal }) => {
    const { handle, record } = hold
    if (!supports(handle, 'ports'))
      throw new SandboxError('unsupported', `The provider ${record.provider} has no links to ports.`)
    const endpoint = await handle.getEndpoint(port, { signal })
    const isElsewhere = endpoint.forwarded && !context.allowsLocalLinks
    if (isElsewhere || Object.keys(endpoint.headers).length > 0)
      throw new SandboxError(
        'unsupported',
        `The provider ${record.provider} has no links that a browser can open.`,
        {
          hint: `On the machine of the bot: sandkasten sandbox url ${record.name} ${port}.`,
        },
      )
    return endpoint.url
  })
}
