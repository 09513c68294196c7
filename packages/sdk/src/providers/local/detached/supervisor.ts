/**
 * The parent of one detached program: a separate process that outlives its starter.
 *
 *     you ──(start)──► supervisor ──► program
 *                          ▲
 *     you, later ──────────┘  socket: output from any number on, stdin, signals
 *
 * The supervisor gets its task on stdin, so that no secret is in argv, and answers with one line on stdout. From then on it
 * serves `supervisor-link.ts` on a socket. After the program's exit it writes `result.json` and the kept output to the
 * program's folder, serves its remaining readers, and exits.
 */
import { rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import path from 'node:path'
import { SandboxError } from '../../../errors.ts'
import { identityOf, readRecord, replaceFile } from '../../../folder/record.ts'
import { Child, type ChildSpec } from '../programs/child.ts'
import { processMarker } from '../programs/environment.ts'
import { killTree } from '../programs/process-tree.ts'
import { decodeFrames, encodeEvent, encodeFrame } from './frames.ts'

export interface SupervisorTask extends ChildSpec {
  readonly incarnation: string
  /** The folder of the process's record and, later, its result. */
  readonly folder: string
  /** The sandbox's folder. Its record contains the end of the sandbox's lifetime. */
  readonly sandboxFolder: string
  readonly socketPath: string
  readonly startedAt: number
}

export interface ProcessRecord {
  readonly pid: number
  readonly cmd: string
  readonly args: readonly string[]
  readonly startedAt: number
  readonly incarnation: string
  readonly socketPath: string
  readonly supervisor: { pid: number; started?: string }
}

async function main(): Promise<void> {
  const task = JSON.parse(await readAll(process.stdin)) as SupervisorTask
  let child: Child
  try {
    child = await Child.start(task)
  } catch (error) {
    const { code, message, hints, details } = error as SandboxError
    await answer({ error: { code: SandboxError.is(error) ? code : 'internal', message, hints, details } })
    return
  }
  const server = serve(child, task.socketPath)
  await new Promise<void>((resolve) => server.once('listening', resolve))
  const { cmd, args, startedAt, incarnation, socketPath } = task
  const record: ProcessRecord = {
    pid: child.pid,
    cmd,
    args,
    startedAt,
    incarnation,
    socketPath,
    supervisor: await identityOf(process.pid),
  }
  await replaceFile(path.join(task.folder, 'process.json'), JSON.stringify(record))
  await answer({ pid: child.pid })
  const lifetime = watchLifetime(task)
  await child.log.ended
  clearTimeout(lifetime.timer)
  await saveOutput(child, task.folder)
  await replaceFile(path.join(task.folder, 'result.json'), JSON.stringify(child.log.exit))
  // New readers use the files; current readers are served to the end.
  server.close()
  rmSync(task.socketPath, { force: true })
}

/** Handles one connection. The first frame contains the request. */
function serve(child: Child, socketPath: string): ReturnType<typeof createServer> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    void handle(child, socket).catch(() => socket.destroy())
  })
  server.listen(socketPath)
  return server
}

async function handle(child: Child, socket: Socket): Promise<void> {
  for await (const { header, body } of decodeFrames(socket)) {
    if (header.op === 'events') {
      void stream(child, socket, Number(header.after))
    } else {
      const reply = await perform(child, header, body).then(
        (result) => ({ result }),
        (error: SandboxError) => ({ error: { code: error.code, message: error.message } }),
      )
      socket.write(encodeFrame(reply))
    }
  }
}

async function perform(child: Child, header: Record<string, unknown>, body: Uint8Array): Promise<unknown> {
  if (header.op === 'kill') return child.kill(header.signal as NodeJS.Signals)
  if (header.op === 'write') return child.write(body)
  if (header.op === 'close') return child.closeStdin()
  if (header.op === 'wait') return child.log.ended
  throw new SandboxError('invalid_argument', `The operation ${String(header.op)} does not exist.`)
}

/** Waits for the socket before the next event: a slow reader slows the program instead of using memory. */
async function stream(child: Child, socket: Socket, after: number): Promise<void> {
  const closed = new AbortController()
  socket.once('close', () => closed.abort())
  try {
    for await (const event of child.log.read(after, closed.signal)) {
      if (!socket.write(encodeEvent(event)))
        await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve))
    }
  } catch (error) {
    if (closed.signal.aborted) return
    const { code, message, details } = error as SandboxError
    socket.write(encodeFrame({ error: { code, message, details } }))
  }
  socket.end()
}

/** Ends the program at the end of the sandbox's lifetime. Rereads the record, because the lifetime may have been extended. */
function watchLifetime(task: SupervisorTask): { timer: NodeJS.Timeout | undefined } {
  const watch: { timer: NodeJS.Timeout | undefined } = { timer: undefined }
  const check = async () => {
    const record = await readRecord(task.sandboxFolder).catch(() => undefined)
    if (record?.expiresAt === undefined && record !== undefined) return
    const left = record ? record.expiresAt! - Date.now() : 0
    if (left <= 0) return killTree({ marker: { name: processMarker, value: task.marker } })
    watch.timer = setTimeout(check, Math.min(left, 60_000))
  }
  void check()
  return watch
}

async function saveOutput(child: Child, folder: string): Promise<void> {
  await replaceFile(path.join(folder, 'output.bin'), Buffer.concat(child.log.kept().map(encodeEvent)))
}

async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

async function answer(message: unknown): Promise<void> {
  await new Promise<void>((resolve) => process.stdout.write(`${JSON.stringify(message)}\n`, () => resolve()))
}

// The starter may be gone, and the supervisor must outlive it.
process.on('SIGHUP', () => {})
process.on('SIGPIPE', () => {})
process.stdout.on('error', () => {})
await main()
