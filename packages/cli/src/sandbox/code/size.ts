import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { lstat, opendir } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { sizeText } from '../../format.ts'
import type { Project } from './project.ts'

export interface SizeLimits {
  readonly files: number
  readonly bytes: number
}

const usual: SizeLimits = { files: 100_000, bytes: 2 * 1024 ** 3 }

/** Refuses a project that is larger than anybody wants to upload, before the first upload. Reads no file. */
export async function checkSize(project: Project, limits = usual, signal?: AbortSignal): Promise<void> {
  let files = 0
  let bytes = 0
  for await (const file of project.isGit ? listed(project.folder) : walked(project.folder)) {
    signal?.throwIfAborted()
    files += 1
    bytes += (await lstat(file).catch(() => undefined))?.size ?? 0
    if (files > limits.files) throw tooLarge(project, `more than ${limits.files} files`)
    if (bytes > limits.bytes) throw tooLarge(project, `more than ${sizeText(limits.bytes)}`)
  }
}

function tooLarge({ folder }: Project, what: string): SandboxError {
  return new SandboxError('too_large', `${folder} has ${what} to upload.`, {
    hint: 'Ignore generated files in .gitignore, or pass the folder of one project.',
  })
}

/** What an upload sends: tracked and untracked files without ignored ones. */
async function* listed(folder: string): AsyncGenerator<string> {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const child = spawn('git', ['-C', folder, '-c', 'core.fsmonitor=false', ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const closed = once(child, 'close')
  try {
    let rest = ''
    for await (const chunk of child.stdout.setEncoding('utf8')) {
      const names = (rest + chunk).split('\0')
      rest = names.pop()!
      for (const name of names) yield path.join(folder, name)
    }
  } finally {
    child.kill()
    await closed
  }
}

async function* walked(folder: string): AsyncGenerator<string> {
  for await (const entry of await opendir(folder)) {
    const at = path.join(folder, entry.name)
    if (entry.isDirectory()) yield* walked(at)
    else yield at
  }
}
