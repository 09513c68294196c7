/** Commands as users write them. This file is never run: `tsc` is the test. */
import type {
  CommandResult,
  ProcessEvent,
  ProcessExit,
  ProcessHandle,
  SandboxHandle,
  StderrEvent,
  StdoutEvent,
} from '@sandkasten/sdk'
import type { LocalProvider } from '@sandkasten/sdk/local'

/** An event narrows by its `type`: with `if`, with `switch`, and as a filter. */
export async function events(process: ProcessHandle): Promise<string[]> {
  const lines: string[] = []
  for await (const event of process.output()) {
    if (event.type === 'exit') {
      lines.push(`${event.exitCode} ${event.signal ?? ''} ${event.durationMs}`)
      // @ts-expect-error: only output has data.
      event.data
      break
    }
    if (event.type === 'stdout') {
      const only: 'stdout' = event.type
      lines.push(only + event.data.byteLength)
      // @ts-expect-error: only the exit has an exit code.
      event.exitCode
      continue
    }
    const rest: StderrEvent = event
    lines.push(rest.type + new TextDecoder().decode(rest.data))
  }
  return lines
}

export function describe(event: ProcessEvent): string {
  switch (event.type) {
    case 'stdout':
      return takesStdout(event)
    case 'stderr':
      return String(event.data.byteLength)
    case 'exit':
      return String(event.exitCode)
    default:
      return event satisfies never
  }
}

type Only<T extends ProcessEvent['type']> = Extract<ProcessEvent, { type: T }>
const takesStdout = (event: Only<'stdout'>): string => String(event.data.byteLength)
export const exact: [StdoutEvent, Only<'exit'>] extends [Only<'stdout'>, ProcessExit] ? true : false = true

/** `wait` returns output only if it collects it. */
export async function waits(process: ProcessHandle): Promise<[CommandResult, ProcessExit]> {
  const exit = await process.wait({ collect: false, timeoutMs: 1000 })
  // @ts-expect-error: nothing was collected.
  exit.stdout
  return [await process.wait({ collect: true, maxOutputBytes: 1000 }), exit]
}

/** `undefined` in `env` compiles, as in `process.env`. */
export async function environments(handle: SandboxHandle, provider: LocalProvider): Promise<void> {
  const env: { PATH: string; TOKEN?: string | undefined } = { PATH: '/bin' }
  await provider.create({ envVars: { ...env, OTHER: undefined } })
  await handle.runCommand({ cmd: 'env', env })
  await handle.spawn({ cmd: 'env', env: process.env })
  await handle.openShell({ env })
  await handle.openTerminal({ env })
  // @ts-expect-error: a number is no text.
  await handle.runCommand({ cmd: 'env', env: { COUNT: 1 } })
}

export async function options(handle: SandboxHandle, signal: AbortSignal): Promise<string> {
  const onStdout = (text: string) => void text
  await handle.spawn({ cmd: 'make', output: 'merged', onStdout, onStderr: onStdout, signal })
  await handle.runCommand({ cmd: 'make', output: 'merged', detached: true, onStdout })
  // @ts-expect-error: there are two modes.
  await handle.runCommand({ cmd: 'make', output: 'both' })
  return (await handle.runCommand({ cmd: 'make', output: 'merged' })).stdout
}
