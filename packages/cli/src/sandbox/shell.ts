import { createInterface, type Interface } from 'node:readline'
import { SandboxError, type SandboxShell, supports } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { surviveOutputFailures, write } from '../output.ts'
import { streamCommand } from '../stream.ts'
import { attachTerminal } from '../terminal.ts'
import { holding, inProject } from './hold.ts'

export interface ShellOptions {
  env?: Readonly<Record<string, string>>
  workdir?: string
  thread?: string
}

/**
 * Opens a terminal in a sandbox. Where the provider has none, reads lines and runs each in a shell that keeps its state.
 * Without a terminal here, stdin is a script.
 */
export function shell(name: string, options: ShellOptions): Promise<number> {
  return holding(name, { purpose: 'shell', thread: options.thread }, async (hold) => {
    const { handle, record } = hold
    const workdir = inProject(hold, options.workdir)
    const { env } = options
    // A closed reader ends the shell first.
    surviveOutputFailures()
    if (!process.stdin.isTTY) return streamCommand(handle, ['sh'], { cwd: workdir, env, forwardsInput: true })
    if (supports(handle, 'terminal')) return attachTerminal(handle, [], { workdir, env, interactive: true })
    if (supports(handle, 'shell'))
      return lineShell(record.name, await handle.openShell({ cwd: workdir, env }))
    throw new SandboxError(
      'unsupported',
      `The provider ${record.provider} has neither terminals nor shells.`,
      {
        hint: `Run commands with sandkasten sandbox exec ${record.name} -- COMMAND.`,
      },
    )
  })
}

type LineShell = Pick<SandboxShell, 'cwd' | 'exec' | 'close'>

/** Returns the exit code of the last line. Ctrl-C ends the running line, Ctrl-D or `exit` the shell. */
async function lineShell(name: string, shell: LineShell): Promise<number> {
  say(
    'sandkasten: this provider has no terminals, so each line runs by itself. Programs get no input. Ctrl-D leaves.',
  )
  const lines = createInterface({ input: process.stdin, output: process.stdout, historySize: 1_000 })
  const nextLine = lineQueue(lines)
  let running: AbortController | undefined
  const interrupt = () => {
    if (running) running.abort()
    else lines.write(null, { ctrl: true, name: 'u' })
  }
  lines.on('SIGINT', interrupt)
  // While a line runs, the terminal is not in raw mode.
  process.on('SIGINT', interrupt)
  let code = 0
  try {
    for (;;) {
      lines.setPrompt(`${name}:${shell.cwd}$ `)
      lines.prompt()
      const line = await nextLine()
      if (line === undefined || /^\s*(exit|logout)\s*$/.test(line)) return code
      if (line.trim() === '') continue
      running = new AbortController()
      try {
        const onOutput = (text: string) => write(process.stdout, text)
        code = (await shell.exec(line, { signal: running.signal, onOutput })).exitCode
      } catch (error) {
        if (!SandboxError.is(error, 'aborted')) throw error
        code = 130
      } finally {
        running = undefined
      }
    }
  } finally {
    process.off('SIGINT', interrupt)
    lines.close()
    await shell.close().catch(() => {})
  }
}

/** Waits for a line; undefined at the end. Lines that are typed while another one runs are kept. */
function lineQueue(lines: Interface): () => Promise<string | undefined> {
  const waiting: string[] = []
  let closed = false
  let wake: (() => void) | undefined
  lines.on('line', (line) => {
    waiting.push(line)
    wake?.()
  })
  lines.on('close', () => {
    closed = true
    wake?.()
  })
  return async () => {
    if (waiting.length === 0 && !closed)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    return waiting.shift()
  }
}
