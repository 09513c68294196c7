import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach } from 'vitest'
import { CloudflareSyncError, type Problem } from '../src/problem.ts'

const roots: string[] = []
const shared: string[] = []

const removeAll = (list: string[]) => {
  for (const root of list.splice(0)) rmSync(root, { recursive: true, force: true })
}
afterEach(() => removeAll(roots))
afterAll(() => removeAll(shared))

export type Files = { [path: string]: string }

export const PACKAGE = fileURLToPath(new URL('..', import.meta.url))

export const SHELL = sandbox('ShellSandbox')

export function sandbox(className: string, body = ''): string {
  const inside = body === '' ? '{}' : `{\n\t${body.replaceAll('\n', '\n\t')}\n}`
  return `import { Sandbox } from '@cloudflare/sandbox';\n\nexport default class ${className} extends Sandbox<Env> ${inside}\n`
}

export interface Project {
  root: string
  path(file: string): string
  write(files: Files): void
  remove(...files: string[]): void
  read(file: string): string
  has(file: string): boolean
}

/** A project whose installed SDK is only a package.json of that version. */
export function project(files: Files, sdk: string | null = '0.8.11'): Project {
  const root = mkdtempSync(join(tmpdir(), 'sandkasten-cloudflare-'))
  roots.push(root)
  const made: Project = {
    root,
    path: (file) => join(root, file),
    write: (more) => {
      for (const [file, text] of Object.entries(more)) {
        mkdirSync(dirname(join(root, file)), { recursive: true })
        writeFileSync(join(root, file), text)
      }
    },
    remove: (...gone) => {
      for (const file of gone) rmSync(join(root, file))
    },
    read: (file) => readFileSync(join(root, file), 'utf8'),
    has: (file) => existsSync(join(root, file)),
  }
  if (sdk)
    made.write({
      'node_modules/@cloudflare/sandbox/package.json': `{"name":"@cloudflare/sandbox","version":"${sdk}"}`,
    })
  made.write(files)
  return made
}

/** A project with the packages of this workspace: wrangler, the SDK, Vite. */
export function realProject(files: Files): Project {
  const made = project(files, null)
  symlinkSync(join(PACKAGE, '../../node_modules'), join(made.root, 'node_modules'), 'dir')
  return made
}

export function sharedProject(files: Files): Project {
  const made = realProject(files)
  shared.push(...roots.splice(roots.indexOf(made.root), 1))
  return made
}

export async function problemsOf(promise: Promise<unknown>): Promise<Problem[]> {
  try {
    await promise
  } catch (error) {
    if (error instanceof CloudflareSyncError) return error.problems
    throw error
  }
  throw new Error('expected it to fail')
}
