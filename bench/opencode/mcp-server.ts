/** An MCP server on stdin and stdout, for one sandbox: over the engine in this process, or through a broker. */
import { EngineProvider } from '@sandkasten/engine'
import { handleSource, serveStdio } from '@sandkasten/mcp'
import { brokerCaller } from '@sandkasten/mcp/broker'

const { BENCH_ENGINE, BENCH_SANDBOX, BENCH_BROKER, BENCH_TOKEN } = process.env

const sandbox =
  BENCH_BROKER === undefined
    ? handleSource(await new EngineProvider(JSON.parse(BENCH_ENGINE!)).get(BENCH_SANDBOX!))
    : brokerCaller({ address: BENCH_BROKER, token: async () => BENCH_TOKEN! })

const server = serveStdio(sandbox)
process.stdin.once('close', async () => {
  await server.close()
  process.exit()
})
