/** Finds the `*.sandbox.ts` files of a folder, and files whose names are likely typos. */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { posixRelative } from '../paths.ts'
import type { Problem } from '../problem.ts'

export const SUFFIX = '.sandbox.ts'

/** Absolute paths, sorted. Skips `node_modules`, folders that start with a dot, and linked folders. */
export function findSandboxFiles(folder: string, root: string): { files: string[]; problems: Problem[] } {
  const files: string[] = []
  const problems: Problem[] = []
  const visit = (current: string) => {
    for (const entry of readdirSync(current, { withFileTypes: true })) {
      const path = join(current, entry.name)
      if (entry.isDirectory()) {
        if (entry.name !== 'node_modules' && !entry.name.startsWith('.')) visit(path)
        continue
      }
      if (entry.isSymbolicLink() && !(existsSync(path) && statSync(path).isFile())) continue
      if (entry.name.endsWith(SUFFIX)) files.push(path)
      else {
        const meant = meantName(entry.name)
        if (!meant) continue
        const place = { file: posixRelative(root, path) }
        const message = `${entry.name} looks like a sandbox file but is not read`
        problems.push({
          severity: 'warning',
          code: 'near-miss',
          message,
          place,
          fix: `rename it to ${meant}`,
        })
      }
    }
  }
  if (existsSync(folder)) visit(folder)
  return { files: files.sort(), problems }
}

function meantName(name: string): string | undefined {
  const match = /^(.*)\.sandbox(?:es|s)?\.(?:ts|tsx|mts|cts|js|mjs|cjs|jsx)$/i.exec(name)
  return match ? `${match[1]}${SUFFIX}` : undefined
}
