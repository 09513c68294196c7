import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'

export interface LocalTar {
  /** The archive. */
  readonly stream: Readable
  /** Waits for the end of `tar`. Returns the number of files in the archive, or throws what `tar` complained about. */
  files(): Promise<number>
}

/** Packs a folder of this machine with `tar`. */
export function packFolder(folder: string): LocalTar {
  const tar = spawn('tar', ['-c', '-v', '-f', '-', '-C', folder, '.'], { stdio: ['ignore', 'pipe', 'pipe'] })
  let names = ''
  tar.stderr.setEncoding('utf8').on('data', (text: string) => {
    names += text
  })
  const ended = once(tar, 'close')
  return {
    stream: tar.stdout,
    async files() {
      const [code] = await ended
      if (code !== 0)
        throw new SandboxError(
          'provider_error',
          `tar ended with ${code}: ${names.trim().split('\n').at(-1)}`,
          { hint: 'Some files could not be read.' },
        )
      return names.split('\n').filter((name) => name !== '' && !name.endsWith('/')).length
    },
  }
}
