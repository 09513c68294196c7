/** Starts opencode bare, from a small process: arguments are the program, its home and its folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { waitForHealth } from '@sandkasten/opencode'
import { timed } from '../measure.ts'
import { serve } from '../worker.ts'
import { prepareHome, server } from './home.ts'

let child: ChildProcess | undefined
process.on('exit', () => child?.kill('SIGKILL'))

serve({
  async start(binary, home, cwd) {
    const [port, password] = [await freePort(), randomBytes(24).toString('base64url')]
    const env = prepareHome(home!, password)
    const authorization = `Basic ${Buffer.from(`${server.user}:${password}`).toString('base64')}`
    const ms = await timed(async () => {
      const started = spawn(binary!, server.args(port, '127.0.0.1'), {
        cwd,
        env,
        stdio: ['ignore', 'pipe', 2],
      })
      child = started
      await listening(started)
      await waitForHealth(`http://127.0.0.1:${port}`, { headers: { authorization } })
    })
    return { ms }
  },
  async end() {
    if (child && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    }
    return { ms: 0 }
  },
})

/** opencode never answers requests that arrive before this line. */
function listening(started: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    started.stdout!.on('data', (data) => {
      said = (said + data).slice(-2000)
      if (server.listening.test(said)) resolve()
    })
    started.once('exit', () => reject(new Error(`opencode ended before it was ready: ${said}`)))
    started.once('error', reject)
  })
}

async function freePort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as { port: number }
  listener.close()
  await once(listener, 'close')
  return port
}
