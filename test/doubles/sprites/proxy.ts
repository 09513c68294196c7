import type { WebSocket } from 'ws'
import type { EngineProvider } from '../../../packages/engine/src/provider/engine-provider.ts'

/** A TCP connection in a sprite: `{host, port}`, then bytes in both directions. */
export function serveProxy(engine: EngineProvider, sandboxId: string, client: WebSocket): void {
  client.on('error', () => client.terminate())
  client.once('message', async (first: Buffer) => {
    try {
      const { port } = JSON.parse(first.toString()) as { port: number }
      const stream = await engine.dial!(sandboxId, port)
      client.on('message', (data: Buffer) => stream.write(data))
      client.on('close', () => stream.destroy())
      stream.on('data', (data: Buffer) => client.send(data))
      stream.on('end', () => client.close(1000))
      stream.on('error', () => client.close(1011))
      client.send(JSON.stringify({ status: 'connected', target: `localhost:${port}` }))
    } catch {
      client.send(JSON.stringify({ status: 'error' }))
      client.close(1011)
    }
  })
}
