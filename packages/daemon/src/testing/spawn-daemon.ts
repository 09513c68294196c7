import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { linkHostLayers } from './host-layers.ts'

export interface SpawnedDaemon {
  readonly url: string
  /** The URL of each configured front. */
  readonly fronts: Readonly<Record<string, string>>
  readonly process: ChildProcess
  /** Sends a signal, and resolves with the exit. */
  end(signal: NodeJS.Signals): Promise<{ code: number | null; signal: string | null }>
}

export async function spawnDaemon(
  config: Record<string, unknown>,
  script = path.join(import.meta.dirname, 'child.ts'),
): Promise<SpawnedDaemon> {
  await linkHostLayers(config)
  const child = spawn(
    process.execPath,
    ['--conditions=sandkasten-source', '--expose-gc', script, JSON.stringify(config)],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) =>
    child.once('exit', (code, signal) => resolve({ code, signal })),
  )
  const line = await Promise.race([
    new Promise<string>((resolve) => createInterface(child.stdout!).once('line', resolve)),
    ended.then((end) => {
      throw new Error(`the daemon ended: ${JSON.stringify(end)}`)
    }),
  ])
  const { url, fronts } = JSON.parse(line)
  return {
    url,
    fronts,
    process: child,
    end(signal) {
      child.kill(signal)
      return ended
    },
  }
}
