import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Hold } from '@sandkasten/registry'
import { type Conflict, type PulledFile, pullChanges } from '@sandkasten/sdk/recipes'
import { say } from '../../errors.ts'
import { cut, oneLine } from '../../format.ts'
import { directoryOf } from './place.ts'

export interface ChangedFile extends PulledFile {
  /** Lines. Undefined for a binary file. */
  readonly added?: number
  readonly removed?: number
}

/** What the sandbox has changed since the upload, and what is not changed here, too. */
export interface Changes {
  readonly diff: string
  readonly files: readonly ChangedFile[]
  readonly conflicts: readonly Conflict[]
}

const limits = { maxFileBytes: 8 * 1024 ** 2, maxTotalBytes: 64 * 1024 ** 2 }

export async function changesIn(hold: Hold, projectDir: string, signal?: AbortSignal): Promise<Changes> {
  const { patch, files, conflicts } = await pullChanges(hold.handle, {
    projectDir,
    remotePath: directoryOf(hold),
    as: 'patch',
    ...limits,
    signal,
  })
  const counts = await countLines(patch)
  return { diff: patch, files: files.map((file) => ({ ...file, ...counts.get(file.path) })), conflicts }
}

const shownFiles = 20
const marks = { added: ' (new)', modified: '', deleted: ' (deleted)' } as const

/** On stderr: stdout has the answer. */
export function sayChanges(name: string, { files, conflicts }: Changes): void {
  if (files.length === 0 && conflicts.length === 0) return say(`sandkasten: nothing changed in ${name}.`)
  if (files.length > 0) say(`sandkasten: changed in ${name}:`)
  for (const { path, change, added, removed } of files.slice(0, shownFiles)) {
    const lines =
      added === undefined
        ? 'binary'
        : [added && `+${added}`, removed && `-${removed}`].filter(Boolean).join(' ')
    console.error(`  ${cut(oneLine(path), 60)}  ${lines || 'mode'}${marks[change]}`)
  }
  if (files.length > shownFiles) say(`  … and ${files.length - shownFiles} more files`)
  if (conflicts.length > 0) say('sandkasten: changed on both sides:')
  for (const { path } of conflicts.slice(0, shownFiles)) console.error(`  ${cut(oneLine(path), 60)}`)
  if (conflicts.length > shownFiles) say(`  … and ${conflicts.length - shownFiles} more files`)
}

interface Lines {
  readonly added: number
  readonly removed: number
}

/** git reads the patch, and applies nothing. */
async function countLines(patch: string): Promise<Map<string, Lines>> {
  if (patch === '') return new Map()
  const child = spawn('git', ['apply', '--numstat', '-z', '-'], {
    cwd: '/',
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  child.stdin.on('error', () => {})
  child.stdin.end(patch)
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  await once(child, 'close')
  const rows = output.split('\0').flatMap((line) => {
    const [, added, removed, path] = /^(\d+)\t(\d+)\t(.+)$/s.exec(line) ?? []
    return path === undefined ? [] : [[path, { added: Number(added), removed: Number(removed) }] as const]
  })
  return new Map(rows)
}
