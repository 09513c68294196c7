import { randomBytes } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'

/** The key that signs links. Created once, readable only by the daemon's user. Removing the file ends all links. */
export async function linkSecret(folder: string): Promise<string> {
  const file = path.join(folder, 'link-secret')
  const known = (await readFile(file, 'utf8').catch(() => '')).trim()
  if (/^[0-9a-f]{64}$/.test(known)) return known
  const secret = randomBytes(32).toString('hex')
  await writeFile(`${file}.new`, `${secret}\n`, { mode: 0o600 })
  await rename(`${file}.new`, file)
  return secret
}
