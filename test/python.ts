import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const cache = path.resolve(import.meta.dirname, '../node_modules/.cache/sandkasten-python')

/**
 * Returns a Python with these packages, such as `e2b==1.2.3`, or the reason why it is missing. The environment is
 * cached.
 */
export async function pythonWith(...packages: string[]): Promise<{ python: string } | { missing: string }> {
  const wanted = packages.join(' ')
  const version = await execute('python3', ['--version']).catch(() => undefined)
  if (!version) return { missing: 'python3 is not installed' }
  const folder = path.join(cache, `${wanted} ${version.stdout.trim()}`.replace(/[^\w.]+/g, '-'))
  if (existsSync(folder)) return { python: path.join(folder, 'bin/python') }
  await mkdir(cache, { recursive: true })
  const fresh = await mkdtemp(`${folder}-`)
  try {
    // Without a pip of its own, it is made in a tenth of the time.
    const made = await execute('python3', ['-m', 'venv', '--without-pip', fresh]).catch(() => undefined)
    if (!made) return { missing: 'python3 cannot create a venv' }
    const options = [
      '--quiet',
      '--disable-pip-version-check',
      '--no-compile',
      '--retries',
      '1',
      '--timeout',
      '20',
    ]
    await execute('python3', ['-m', 'pip', '--python', fresh, 'install', ...options, ...packages])
    // Renamed atomically: another process may create it concurrently, and either is fine.
    await rename(fresh, folder).catch((error) => {
      if (!existsSync(folder)) throw error
    })
    return { python: path.join(folder, 'bin/python') }
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string }
    if (stderr.includes('No module named pip')) return { missing: 'python3 has no pip' }
    if (/connection broken by|Max retries exceeded|timed out/.test(stderr))
      return { missing: `PyPI cannot be reached, and ${wanted} is not cached here` }
    throw error
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
}
