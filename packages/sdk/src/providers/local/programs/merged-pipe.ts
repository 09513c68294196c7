import { execFile } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { guarded } from '../../../folder/errors.ts'
import { randomId } from '../../../shared/ids.ts'

export interface MergedPipe {
  readonly reader: Socket
  /** The descriptor for the program's stdout and stderr. Close it once the program has it. */
  readonly writer: number
}

/** A pipe of our own: with Node's, a program cannot have the same pipe as stdout and as stderr. */
export function openMergedPipe(): Promise<MergedPipe> {
  return guarded('The pipe for the merged output could not be created', async () => {
    const file = path.join(tmpdir(), `sandkasten-${randomId()}.pipe`)
    await promisify(execFile)('mkfifo', ['-m', '600', file])
    let fd: number | undefined
    try {
      // Without a reader, opening the writing end would block.
      fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
      const writer = openSync(file, constants.O_WRONLY)
      return { reader: new Socket({ fd, readable: true, writable: false }), writer }
    } catch (error) {
      if (fd !== undefined) closeSync(fd)
      throw error
    } finally {
      await rm(file, { force: true })
    }
  })
}
