import { equal, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import { group } from '../../types.ts'

export const ports = group('ports', [
  {
    id: 'endpoint',
    name: 'getEndpoint() returns a URL and headers, and getUrl() the same URL, with or without a listener',
    needs: ['ports'],
    async run(t) {
      const sandbox = await t.sandbox()
      const { url, headers } = await sandbox.getEndpoint(8080)
      ok(/^https?:$/.test(new URL(url).protocol), `the URL is ${url}`)
      equal(typeof headers, 'object', 'type of headers')
      equal(await sandbox.getUrl(8080), url, 'getUrl()')
    },
  },
  {
    id: 'bad-port',
    name: 'An invalid port number throws invalid_argument, and the error contains the number',
    needs: ['ports'],
    async run(t) {
      const sandbox = await t.sandbox()
      for (const port of [0, -1, 65_536, 1.5, Number.NaN, '8080' as unknown as number]) {
        const error = await rejects(
          sandbox.getEndpoint(port),
          'invalid_argument',
          `getEndpoint(${String(port)})`,
        )
        ok(Object.is(error.details.port, port), `details.port is ${String(error.details.port)}`)
      }
    },
  },
  {
    id: 'port-reachable',
    name: 'A server in the sandbox answers at its URL',
    needs: ['ports'],
    program: 'server',
    async run(t) {
      const sandbox = await t.create()
      const port = 20_000 + Math.floor(Math.random() * 20_000)
      const server = await t.spawn(sandbox, t.commands.server!(port, 'hello from inside'), { detached: true })
      await new EventReader(server).until('ready\n')
      const { url, headers } = await sandbox.getEndpoint(port)
      equal(await (await fetch(url, { headers })).text(), 'hello from inside', 'the answer')
    },
  },
])
