/** What opencode gets everywhere: the same program, configuration, offline variables and prepared home. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { agents } from '@sandkasten/opencode'
import { modelConfig } from '../../packages/opencode/src/testing/model-server.ts'

export const { opencode } = agents
export const server = opencode.server!

/** No model answers there: a start asks none. */
export const config = modelConfig('http://127.0.0.1:9/v1')

/** The program that bootstrap copies on this machine, or undefined. */
export function findBinary(): string | undefined {
  const require = createRequire(import.meta.url)
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64'
  for (const name of opencode.platformPackages(arch, false, true)) {
    const nested = createRequire(require.resolve(`${opencode.package}/package.json`))
    const file = path.join(path.dirname(nested.resolve(`${name}/package.json`)), opencode.fileInPackage)
    if (existsSync(file)) return file
  }
  return undefined
}

/** The variables and files that bootstrap gives to the server in a sandbox. */
export function prepareHome(home: string, password: string): Record<string, string> {
  const folder = path.join(home, '.local/share/sandkasten')
  const settings = path.join(home, '.config/opencode')
  for (const made of [folder, path.join(settings, 'node_modules')]) mkdirSync(made, { recursive: true })
  writeFileSync(path.join(folder, 'models.json'), '{}')
  const packages = { '': { dependencies: { '@opencode-ai/plugin': '*' } } }
  writeFileSync(path.join(settings, 'package-lock.json'), JSON.stringify({ packages }))
  return {
    ...opencode.environment({ folder, model: undefined, config }),
    HOME: home,
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    [server.userVariable]: server.user,
    [server.passwordVariable]: password,
  }
}
