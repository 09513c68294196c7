import { equal, ok, rejects } from '../assert.ts'
import { EventReader } from '../events.ts'
import { group } from '../types.ts'

export const ports = group('ports', [
  {
    id: 'endpoint',
    name: 'getEndpoint() gives a URL and headers, and getUrl() the same URL, whether or not anything listens',
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
    name: 'A number that is no port is refused with invalid_argument, and the error has the number',
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
    name: 'A server that listens in the sandbox answers at its URL',
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
