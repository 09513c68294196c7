/** Bare processes of this machine, without isolation: the cost of a command from Node. */
import { spawn } from 'node:child_process'
import type { Turn } from '../../measure.ts'
import { timed } from '../../measure.ts'
import { type Ask, startWorker } from '../../worker.ts'
import type { Workplace } from '../workplace.ts'
import { COMMAND } from './subject.ts'

export type SpawnSubject = (what: 'command' | 'output' | 'silent') => Promise<number>

/** `npm run` prepends folders to PATH; searching them would only count for bare processes. */
export const plainEnv = {
  ...process.env,
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
}

export async function openSpawn({ cleanup }: Workplace): Promise<SpawnSubject> {
  const ask: Ask = await startWorker(cleanup, new URL('./spawn-worker.ts', import.meta.url))
  return async (what) => (await ask(what)).ms
}

/** From a small process; `here` is the same from this one, which is larger because of the engine. */
export function spawnTurns(bare: SpawnSubject, samples: number): Turn[] {
  return [
    { id: 'spawn.command', samples, measure: () => bare('command') },
    { id: 'spawn.output', samples, measure: () => bare('output') },
    { id: 'spawn.silent', samples, measure: () => bare('silent') },
    { id: 'spawn.here', samples, measure: () => timed(() => runBare('pipe', false)) },
  ]
}

export function runBare(stdio: 'pipe' | 'ignore', read: boolean): Promise<string> {
  const [program, ...args] = COMMAND
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio, env: plainEnv })
    let output = ''
    if (read) {
      for (const stream of [child.stdout, child.stderr])
        stream?.setEncoding('utf8').on('data', (text: string) => {
          output += text
        })
      child.stdin?.end()
    }
    child.on('error', reject)
    child.on('close', (code) => (code === 0 ? resolve(output) : reject(new Error(`exit code ${code}`))))
  })
}
