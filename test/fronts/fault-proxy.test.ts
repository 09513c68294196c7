import { createServer } from 'node:http'
import { expect, it } from 'vitest'
import { FaultProxy } from './fault-proxy.ts'

it('the proxy leaves no listeners behind, however often its client is slow', async () => {
  const warnings: string[] = []
  const note = (warning: Error) => warnings.push(`${warning.name}: ${warning.message}`)
  process.on('warning', note)
  const bytes = 30 * 1_048_576
  const server = createServer((_, answer) => answer.end(Buffer.alloc(bytes)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const proxy = await FaultProxy.start()
  proxy.target = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  try {
    let got = 0
    for await (const chunk of (await fetch(proxy.url)).body!) {
      got += chunk.length
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(got).toBe(bytes)
    expect(warnings).toEqual([])
  } finally {
    process.off('warning', note)
    await proxy.stop()
    server.closeAllConnections()
    server.close()
  }
})
