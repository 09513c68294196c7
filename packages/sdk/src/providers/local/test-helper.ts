import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll } from 'vitest'
import { LocalProvider } from './index.ts'

/** A folder for the tests of one file, removed afterwards. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-test-'))
  afterAll(() => rm(folder, { recursive: true, force: true }))
  return folder
}

export function providerAt(root: string): LocalProvider {
  return new LocalProvider({ root, acceptNoIsolation: true })
}

/** Runs JavaScript in another process, with `provider` over the same root. Resolves with its output. */
export async function inAnotherProcess(root: string, code: string): Promise<string> {
  const module = JSON.stringify(new URL('./index.ts', import.meta.url).href)
  const script = `const { LocalProvider } = await import(${module})
    const provider = new LocalProvider({ root: ${JSON.stringify(root)}, acceptNoIsolation: true })
    ${code}`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
  return stdout.trim()
}

/** Ids of the live processes with a sandbox's mark. */
export async function processesOf(sandboxId: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const marked = await Promise.all(
    pids.map(async (pid) =>
      (await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')).includes(
        `SANDKASTEN_SANDBOX=${sandboxId}`,
      ),
    ),
  )
  return pids.filter((_, index) => marked[index])
}

/** Waits for a condition. The deadline turns a hang into a failure. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; ) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error(`Timed out waiting until ${what}`)
}
