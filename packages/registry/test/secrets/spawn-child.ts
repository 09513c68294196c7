import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { Task } from './child.ts'

export interface Child {
  readonly process: ChildProcess
  readonly pid: number
  /** Everything printed so far, on stdout and stderr. */
  output(): string
  /** Resolves when the process has printed this. Rejects if it ends first. */
  printed(text: string): Promise<void>
  /** The exit code or the signal. */
  readonly ended: Promise<number | string>
}

export interface SpawnOptions {
  readonly cwd?: string
  readonly nodeOptions?: readonly string[]
  /** Without the limit that turns cores off. */
  readonly cores?: boolean
}

const running = new Set<ChildProcess>()

/** Ends children that a failed test has left. */
export function killChildren(): void {
  for (const child of running) child.kill('SIGKILL')
}

export function spawnChild(task: Task, { cwd, nodeOptions = [], cores = false }: SpawnOptions = {}): Child {
  const script = path.join(import.meta.dirname, 'child.ts')
  const command = [process.execPath, '--conditions=sandkasten-source', ...nodeOptions, script]
  const [program, ...args] = cores
    ? ['sh', '-c', 'ulimit -c unlimited; exec "$@"', 'sh', ...command]
    : command
  const child = spawn(program!, args, { cwd, stdio: 'pipe' })
  running.add(child)
  child.once('close', () => running.delete(child))
  child.stdin.end(JSON.stringify(task))
  let output = ''
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += String(data)))
  return {
    process: child,
    pid: child.pid!,
    output: () => output,
    ended,
    async printed(text) {
      while (!output.includes(text)) {
        const next = Promise.race([once(child.stdout, 'data'), once(child.stderr, 'data')])
        const end = await Promise.race([next.then(() => undefined), ended])
        if (end !== undefined && !output.includes(text)) throw new Error(`ended with ${end}: ${output}`)
      }
    },
  }
}
