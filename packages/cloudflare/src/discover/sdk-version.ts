/**
 * The version of `@cloudflare/sandbox` that a file's import resolves to, as Node resolves packages: every
 * `node_modules` from the file's folder upwards (hoisting, workspaces, pnpm's links), then Node's own resolver, which
 * Yarn's Plug'n'Play replaces.
 * There is no fallback: an image that does not match the SDK breaks at run time, so a missing SDK is an error and
 * never the image tag `latest`.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { SDK } from './class-chain.ts'

export function sdkVersion(importer: string): string | undefined {
  const require = createRequire(importer)
  for (const folder of require.resolve.paths(SDK) ?? []) {
    const version = versionIn(join(folder, SDK))
    if (version) return version
  }
  let folder: string
  try {
    folder = dirname(require.resolve(SDK))
  } catch {
    return undefined
  }
  for (; dirname(folder) !== folder; folder = dirname(folder)) {
    const version = versionIn(folder)
    if (version) return version
  }
  return undefined
}

function versionIn(folder: string): string | undefined {
  const path = join(folder, 'package.json')
  if (!existsSync(path)) return undefined
  const { name, version } = JSON.parse(readFileSync(path, 'utf8'))
  return name === SDK && typeof version === 'string' ? version : undefined
}
