import { supports } from '@sandkasten/sdk'
import { z } from 'zod'
import { limits } from './limits.ts'
import { defineTool, failure, textResult } from './tool.ts'

export const getUrl = defineTool({
  name: 'get_url',
  title: 'Get URL',
  description:
    'Return the address under which a port of the sandbox can be reached from outside. Start a program that listens on the port first, with start_process.',
  input: z.object({ port: z.int().min(1).max(65_535).describe('The port in the sandbox.') }),
  readOnly: true,
  workMs: () => limits.callMs,
  async run({ port }, { use, source }) {
    return use(async ({ handle, signal }) => {
      if (!supports(handle, 'ports')) {
        const { provider } = await source.state({ signal })
        return failure(
          `The provider “${provider}” has no addresses for ports. Use run_command with curl inside.`,
        )
      }
      const { url, headers, forwarded } = await handle.getEndpoint(port, { signal })
      const names = Object.entries(headers)
      return textResult(
        [
          url,
          ...(names.length > 0 ? ['Send these headers with every request:'] : []),
          ...names.map(([name, value]) => `${name}: ${value}`),
          ...(forwarded
            ? ['The address works on the machine of the agent, until the sandbox or its broker ends.']
            : []),
        ].join('\n'),
      )
    })
  },
})
