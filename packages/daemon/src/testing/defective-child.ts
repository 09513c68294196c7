/** Like `child.ts`, with a provider that throws unhandled errors in two ways. */
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { configOf } from '../config/index.ts'
import { startDaemon } from '../daemon.ts'

const provider = new MemoryProvider()
provider.command(
  () => true,
  async ({ stdout }) => void (await stdout.write('fine')),
)
provider.command(
  ({ cmd }) => cmd === 'throws',
  async () => {
    setTimeout(() => {
      throw new Error('thrown where nothing catches it')
    }, 10)
    await new Promise(() => {})
  },
)
provider.command(
  ({ cmd }) => cmd === 'rejects',
  async () => {
    void Promise.reject(new Error('rejected where nothing waits'))
    await new Promise(() => {})
  },
)
const config = configOf(JSON.parse(process.argv[2]!))
const daemon = await startDaemon({
  config,
  provider: provider,
  ownsProcess: true,
})
process.on('SIGTERM', () => void daemon.close())
process.stdout.write(`${JSON.stringify({ url: daemon.url, fronts: daemon.fronts })}\n`)
