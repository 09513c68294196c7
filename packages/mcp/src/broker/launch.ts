import { spawn } from 'node:child_process'
import { open, readFile } from 'node:fs/promises'
import { SandboxError } from '@sandkasten/sdk'
import { oneLine } from '../tools/index.ts'
import { type BrokerPlace, createPlace } from './place.ts'

/** What a broker prints on stdout when it answers. */
export const readyLine = 'ready'

export interface LaunchOptions {
  readonly place: BrokerPlace
  /** The program and its arguments. It prints `readyLine`. */
  readonly command: readonly string[]
  /** Default 60 seconds. */
  readonly timeoutMs?: number
}

/** Starts a broker that outlives this process, and waits until it answers. */
export async function launchBroker({ place, command, timeoutMs = 60_000 }: LaunchOptions): Promise<void> {
  await createPlace(place)
  const log = await open(place.log, 'a', 0o600)
  const { size } = await log.stat()
  if (size > maxLogBytes) await log.truncate()
  const [program, ...args] = command
  const child = spawn(program!, args, { detached: true, stdio: ['ignore', 'pipe', log.fd], cwd: '/' })
  try {
    const ended = await new Promise<number | undefined>((resolve, reject) => {
      const timer = setTimeout(() => reject(failed('did not answer in time')), timeoutMs)
      const done = (code: number | undefined) => {
        clearTimeout(timer)
        resolve(code)
      }
      child.once('error', (error) => reject(failed(error.message)))
      child.once('exit', (code) => done(code ?? 125))
      child.stdout!.once('data', () => done(undefined))
    })
    if (ended !== undefined) throw failed(await lastLine(place.log))
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  } finally {
    await log.close()
    child.stdout?.destroy()
    child.removeAllListeners()
    child.unref()
  }
}

const maxLogBytes = 256 * 1024

async function lastLine(file: string): Promise<string> {
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n')
  return oneLine(lines.slice(-2).join(' '), 500)
}

function failed(why: string): SandboxError {
  return new SandboxError('unavailable', `The broker could not be started: ${why}`, {
    hint: 'Start it yourself to see why: sandkasten mcp broker.',
  })
}
