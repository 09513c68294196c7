import { SandboxError } from '@sandkasten/sdk'
import { type Key, parseKey } from './key.ts'
import { readKeyFile, writeKeyFile } from './key-file.ts'

/** Where the keys are: variables, or a file. The database says which key is in use; see `Secrets`. */
export interface KeySource {
  /** For errors: `SANDKASTEN_SECRET_KEY`, or `the key file /home/me/…`. */
  readonly name: string
  /** Read anew at each call, because another process may rotate the key. The first one is for new databases. */
  load(): Key[]
  /** Absent if the keys come from variables. Call it only under the database's lock for encrypted values. */
  save?(keys: readonly Key[]): void
}

export interface KeySourceOptions {
  /** The key file, if no variable is set. */
  readonly file: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export const keyVariable = 'SANDKASTEN_SECRET_KEY'
export const oldKeyVariable = 'SANDKASTEN_SECRET_KEY_OLD'

/** Throws `invalid_argument` for a malformed variable. */
export function keySource({ file, env }: KeySourceOptions): KeySource {
  const [current, old] = [env[keyVariable] ?? '', env[oldKeyVariable] ?? '']
  if (current === '') {
    if (old !== '')
      throw new SandboxError('invalid_argument', `${oldKeyVariable} is set, but ${keyVariable} is not.`, {
        hint: `Set ${keyVariable} to the new key, or unset ${oldKeyVariable}.`,
      })
    return {
      name: `the key file ${file}`,
      load: () => readKeyFile(file),
      save: (keys) => writeKeyFile(file, keys),
    }
  }
  const keys = [parseKey(current, keyVariable), ...(old === '' ? [] : [parseKey(old, oldKeyVariable)])]
  return { name: keyVariable, load: () => keys }
}
