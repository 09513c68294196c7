import { equal, includes, ok, rejects } from '../../assert.ts'
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
    id: 'endpoint-protocol',
    name: 'The protocol of getEndpoint() and getUrl() sets the scheme; TLS is used, or refused if it is missing',
    needs: ['ports'],
    async run(t) {
      const sandbox = await t.sandbox()
      const plain = await sandbox.getEndpoint(8080)
      const [scheme, rest] = plain.url.split('://')
      const tls = scheme === 'https' ? 's' : ''
      for (const protocol of ['http', 'ws'] as const) {
        const { url, headers } = await sandbox.getEndpoint(8080, { protocol })
        equal([url, headers], [`${protocol}${tls}://${rest}`, plain.headers], `the endpoint for ${protocol}`)
        equal(await sandbox.getUrl(8080, { protocol }), url, `getUrl() for ${protocol}`)
        const secure = `${protocol}s` as const
        if (tls) {
          equal(
            await sandbox.getUrl(8080, { protocol: secure }),
            `${secure}://${rest}`,
            `getUrl() for ${secure}`,
          )
          continue
        }
        const error = await rejects(
          sandbox.getEndpoint(8080, { protocol: secure }),
          'unsupported',
          `getEndpoint() for ${secure} without TLS`,
        )
        equal(error.details.protocol, secure, 'details.protocol')
      }
      const error = await rejects(
        sandbox.getEndpoint(8080, { protocol: 'tcp' as 'http' }),
        'invalid_argument',
        'getEndpoint() for tcp',
      )
      includes(error.hint, 'https', 'the hint')
    },
  },
  {
    id: 'endpoint-forwarded',
    name: 'A URL is the same in every process, unless the endpoint says that this process forwards the port',
    needs: ['ports'],
    async run(t) {
      const sandbox = await t.create()
      const { url, forwarded } = await sandbox.getEndpoint(8080)
      ok(URL.canParse(url), `the URL is ${url}`)
      if (forwarded) {
        ok(/^(127\.|\[?::1|localhost$)/.test(new URL(url).hostname), `the forwarded URL is ${url}`)
        return
      }
      const provider = (await t.reopened()) ?? t.provider
      equal(await (await provider.get(sandbox.id)).getUrl(8080), url, 'the URL in another process')
    },
  },
  {
    id: 'ports-declared',
    name: 'Ports given at create are in handle.ports, without repetitions, also after a restart and in another process',
    needs: ['ports'],
    options: ['ports'],
    async run(t) {
      const sandbox = await t.create({ ports: [8080, 3000, 8080] })
      equal(sandbox.ports, [3000, 8080], 'ports of the new handle')
      equal((await t.provider.get(sandbox.id)).ports, [3000, 8080], 'ports of another handle')
      if (sandbox.capabilities.stop) await sandbox.stop()
      const provider = (await t.reopened()) ?? t.provider
      equal((await provider.get(sandbox.id)).ports, [3000, 8080], 'ports in another process')
      equal((await t.create()).ports, [], 'ports of a sandbox that was created without')
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
