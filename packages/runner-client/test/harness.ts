/** A real runner as an ordinary process in a temporary folder. Disposing of it ends the process and removes the folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { RunnerClient } from '@sandkasten/runner-client'
import { buildRunner } from '../../engine/src/runner/build-runner.ts'

export interface TestRunner extends AsyncDisposable {
  socket: string
  /** The test's working folder, removed at the end. */
  folder: string
  process: ChildProcess
  pid: number
  stderr(): string
  connect(): Promise<RunnerClient>
  /** A socket without any protocol on it. */
  raw(): Promise<Socket>
  rssKb(): Promise<number>
}

let counter = 0
/** Ids that no other call in this test process has used. */
export function fresh(prefix = 'id'): string {
  counter += 1
  return `${prefix}-${counter}`
}

export async function startRunner(
  options: { args?: string[]; env?: NodeJS.ProcessEnv; wrap?: string[] } = {},
): Promise<TestRunner> {
  const binary = await buildRunner()
  const folder = await mkdtemp(join(tmpdir(), 'sandkasten-runner-'))
  const socket = join(folder, 'runner.sock')
  const command = [
    ...(options.wrap ?? []),
    binary,
    'serve',
    '--socket',
    socket,
    '--ready-fd',
    '3',
    ...(options.args ?? []),
  ]
  const child = spawn(command[0] as string, command.slice(1), {
    cwd: folder,
    env: options.env ?? process.env,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const exited = once(child, 'exit')
  const ready = once(child.stdio[3] as Readable, 'data')
  await Promise.race([
    ready,
    exited.then(() => {
      throw new Error(`the runner ended before it was ready: ${stderr}`)
    }),
  ])
  const clients: RunnerClient[] = []
  const sockets: Socket[] = []
  const pid = child.pid as number
  return {
    socket,
    folder,
    process: child,
    pid,
    stderr: () => stderr,
    async connect() {
      const client = await RunnerClient.connectUnix(socket)
      clients.push(client)
      return client
    },
    async raw() {
      const stream = connect(socket)
      stream.on('error', () => {})
      sockets.push(stream)
      await once(stream, 'connect')
      return stream
    },
    rssKb: () => rssKb(pid),
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.close()
      for (const stream of sockets) stream.destroy()
      if (child.exitCode === null && child.signalCode === null) {
        // The first TERM asks all processes to end, the second kills them. The kernel merges pending signals, so repeat.
        // A wrapper does not forward signals. Its child is PID 1 of a namespace, and killing it ends the namespace.
        if (options.wrap !== undefined) for (const inner of await childrenOf(pid)) killIfThere(inner)
        child.kill('SIGTERM')
        const again = setInterval(() => child.kill('SIGTERM'), 20)
        const timer = setTimeout(() => child.kill('SIGKILL'), 10_000)
        await exited
        clearInterval(again)
        clearTimeout(timer)
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    // The process has exited since the listing.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return text.split(' ').filter(Boolean).map(Number)
}

export async function rssKb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1])
}

/** Whether a process with this pid exists and is not a zombie. */
export async function alive(pid: number): Promise<boolean> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    return !/\) [ZX] /.test(stat)
  } catch {
    return false
  }
}
