/** A sandbox of an engine in another process: see `sandbox-worker.ts`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { OciIsolatorOptions } from '../isolator.ts'
import type { Said, SpecChanges } from './bench.ts'

export interface RemoteSandbox extends AsyncDisposable {
  readonly pids: { shim: number; runner: number }
  readonly firstId: number
  sh(script: string): Promise<Said>
}

const worker = fileURLToPath(new URL('./sandbox-worker.ts', import.meta.url))

/** `before` is a command that starts the engine's process, such as `unshare --mount`. */
export async function remoteSandbox(
  before: readonly [string, ...string[]],
  options: Partial<OciIsolatorOptions>,
  changes: SpecChanges = {},
): Promise<RemoteSandbox> {
  const [program, ...args] = before
  const node = [process.execPath, '--conditions=sandkasten-source', worker]
  const child = spawn(program, [...args, ...node, JSON.stringify(options), JSON.stringify(changes)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error('the worker has ended')
    return JSON.parse(value)
  }
  const facts = await next()
  if (facts.error) throw new Error(facts.error)
  return {
    ...facts,
    async sh(script: string) {
      child.stdin.write(`${JSON.stringify(script)}\n`)
      return next()
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'exit')
    },
  }
}
