import { spawn } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = path.resolve(fileURLToPath(import.meta.url), '../..')

/** Runs a program of the workspace with its output shown. Resolves with its exit code. */
export function run(
  cmd: string,
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): Promise<number> {
  const bin = path.join(root, 'node_modules/.bin')
  const env = { ...process.env, PATH: `${bin}${path.delimiter}${process.env.PATH}`, ...options.env }
  return new Promise((resolve, reject) => {
    const child = spawn(cmd, [...args], {
      cwd: options.cwd ?? root,
      env,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(signal ? 1 : (code ?? 1)))
  })
}

/** Runs stages one after the other, says how long each took, and ends this process with 1 at the first that fails. */
export async function stages(
  list: ReadonlyArray<{ name: string; run: () => Promise<number> }>,
): Promise<void> {
  for (const stage of list) {
    const startedAt = performance.now()
    console.log(`\n▸ ${stage.name}`)
    const code = await stage.run()
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    if (code !== 0) {
      console.error(`✗ ${stage.name} failed after ${seconds} s`)
      process.exit(1)
    }
    console.log(`✓ ${stage.name} (${seconds} s)`)
  }
}
