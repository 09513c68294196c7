import { readdirSync, readFileSync } from 'node:fs'
import { errnoOf, translate } from '@sandkasten/sdk/internal'

/** The text of a file, or undefined if it cannot be read. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** The names in a folder; an empty list if the folder does not exist. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return []
    throw translate(error, `cannot read ${folder}`)
  }
}
