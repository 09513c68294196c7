import type { IncomingMessage, ServerResponse } from 'node:http'
import { type ProcessHandle, SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import type { WebSocket } from 'ws'

/** The first byte of a binary frame. */
const frame = { stdin: 0, stdout: 1, stderr: 2, exit: 3, stdinEof: 4 } as const

/** A command without a terminal on a WebSocket. It ends when its client leaves. */
export function serveExec(sandbox: SandboxHandle, query: URLSearchParams, client: WebSocket): void {
  const starting = start(sandbox, query)
  let input = Promise.resolve()
  let ended = false
  const inTurn = (work: (process: ProcessHandle) => Promise<unknown>) => {
    // The program may have closed its stdin, or ended.
    input = input.then(async () => void (await work(await starting))).catch(() => {})
  }
  client.on('message', (data: Buffer, isBinary: boolean) => {
    if (!isBinary) {
      const { type, signal } = JSON.parse(data.toString()) as { type?: string; signal?: string }
      if (type === 'signal' && signal !== undefined)
        starting.then((process) => signalAlone(sandbox, process, signal)).catch(() => {})
      return
    }
    if (data[0] === frame.stdin) inTurn((process) => process.writeStdin(data.subarray(1)))
    if (data[0] === frame.stdinEof) inTurn((process) => process.closeStdin())
  })
  client.on('close', () => {
    if (!ended) starting.then((process) => signalAlone(sandbox, process, 'SIGTERM')).catch(() => {})
  })
  client.on('error', () => client.terminate())
  void (async () => {
    try {
      const process = await starting
      for await (const event of process.output()) {
        if (event.type === 'exit') {
          ended = true
          client.send(Buffer.from([frame.exit, event.exitCode]))
        } else {
          const data = Buffer.concat([Buffer.from([frame[event.type]]), event.data])
          await new Promise<void>((resolve) => client.send(data, () => resolve()))
        }
      }
    } catch (error) {
      ended = true
      if (SandboxError.is(error, 'command_not_found')) client.send(Buffer.from([frame.exit, 127]))
      client.close(1011)
    }
  })()
}

/** Only for commands without stdin and with little output. */
export async function serveExecOverHttp(
  sandbox: SandboxHandle,
  query: URLSearchParams,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  request.resume()
  const process = await start(sandbox, query)
  await process.closeStdin()
  const { exitCode, stdout } = await process.wait()
  response.writeHead(200, { 'content-type': 'application/octet-stream' })
  if (stdout) response.write(Buffer.concat([Buffer.from([frame.stdout]), Buffer.from(stdout)]))
  response.end(Buffer.from([frame.exit, exitCode]))
}

function start(sandbox: SandboxHandle, query: URLSearchParams): Promise<ProcessHandle> {
  const [cmd = '', ...args] = query.getAll('cmd')
  const env = Object.fromEntries(query.getAll('env').map((pair) => pair.split(/=(.*)/s).slice(0, 2)))
  const cwd = query.get('dir') ?? undefined
  return sandbox.spawn({ cmd, args, env, cwd, stdin: 'pipe', detached: true })
}

/** The engine's own kill would also end what the program has started. */
async function signalAlone(sandbox: SandboxHandle, { pid }: ProcessHandle, signal: string): Promise<void> {
  if (pid === undefined) throw new Error('The engine did not report the pid of a program.')
  await sandbox.runCommand({ cmd: 'kill', args: ['-s', signal.replace(/^SIG/, ''), String(pid)] })
}
