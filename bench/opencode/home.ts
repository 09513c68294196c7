/** What opencode gets everywhere: the same program, configuration, offline variables and prepared home. */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { agentMount, agents } from '@sandkasten/opencode'
import { modelConfig } from '../../packages/opencode/src/testing/model-server.ts'

export const { opencode } = agents
export const server = opencode.server!

/** No model answers there: a start asks none. */
export const config = modelConfig('http://127.0.0.1:9/v1')

/** The program that bootstrap copies and mounts. */
export function findBinary(): string {
  const mount = agentMount('opencode')
  if (!mount) throw new Error('opencode is not installed; run: node scripts/suites.ts opencode')
  return mount.source
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
