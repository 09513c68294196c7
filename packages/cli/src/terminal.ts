import type { SandboxTerminal } from '@sandkasten/sdk'
import { codeOf, forwardSignals } from './steer.ts'

interface WithTerminals {
  openTerminal(options: object): Promise<SandboxTerminal>
}

export interface AttachOptions {
  workdir?: string
  env?: Readonly<Record<string, string>>
  /** In seconds. */
  timeout?: number
  /** Forward keys. */
  interactive?: boolean
  /** Leave our stdin usable, for questions afterwards. */
  keepsInput?: boolean
}

/**
 * Runs the command, or a login shell, on a terminal that is connected to ours: forwards keys and size changes.
 */
export async function attachTerminal(
  sandbox: WithTerminals,
  [cmd, ...args]: readonly string[],
  options: AttachOptions,
): Promise<number> {
  const { stdin, stdout } = process
  const terminal = await sandbox.openTerminal({
    ...(cmd === undefined ? {} : { cmd, args }),
    env: options.env,
    cols: stdout.columns ?? 80,
    rows: stdout.rows ?? 24,
    cwd: options.workdir,
  })
  const resize = () =>
    void terminal.resize({ cols: stdout.columns ?? 80, rows: stdout.rows ?? 24 }).catch(() => {})
  const type = (data: Buffer) => void terminal.write(data).catch(() => {})
  const raw = options.interactive && stdin.isTTY
  if (raw) stdin.setRawMode(true)
  if (options.interactive) stdin.on('data', type)
  stdout.on('resize', resize)
  const stopForwarding = forwardSignals((signal) => terminal.kill(signal))
  let timedOut = false
  const end = () => {
    timedOut = true
    void terminal.kill('SIGKILL').catch(() => {})
  }
  const timer = options.timeout === undefined ? undefined : setTimeout(end, options.timeout * 1000)
  try {
    for await (const event of terminal.output()) {
      if (event.type === 'exit') {
        return codeOf({ ...event, timedOut }, options.timeout)
      }
      stdout.write(event.data)
    }
    return 125
  } finally {
    clearTimeout(timer)
    stopForwarding()
    stdout.off('resize', resize)
    stdin.off('data', type)
    if (raw) stdin.setRawMode(false)
    if (options.keepsInput) stdin.pause()
    else stdin.destroy()
  }
}
