import { execFile } from 'node:child_process'
import { isIP } from 'node:net'
import { homedir } from 'node:os'
import path from 'node:path'
import { namesIn, readText } from '../../read-files.ts'
import type { GatewayRule } from '../wire.ts'

/**
 * The package registries of this machine, from its own configuration: what `npm`, `pip`, `cargo`, `go` and `apt` would
 * use here. A program that is not installed and not configured adds nothing. No registry is known to this code.
 *
 * A registry may lead to further hosts for its files. No configuration names these, so a policy must.
 */
export async function packageRules(env: NodeJS.ProcessEnv = process.env): Promise<GatewayRule[]> {
  const found = await Promise.all([npm(env), pip(env), cargo(env), go(env), apt()])
  const rules = new Map<string, GatewayRule>()
  for (const url of found.flat()) {
    const rule = ruleOf(url)
    if (rule) rules.set(JSON.stringify(rule), rule)
  }
  return [...rules.values()].slice(0, MAX_RULES)
}

const MAX_RULES = 100
/** On a busy machine, npm needs seconds. Its registry would be missing for as long as the rules are kept. */
const PROGRAM_MS = 20_000

/** Exported for its test. Undefined for what is not an HTTP URL: `file:`, `direct`, `off`. */
export function ruleOf(text: string): GatewayRule | undefined {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return undefined
  const protocol = url.protocol === 'https:' ? 'tls' : 'http'
  const ports = [url.port === '' ? (protocol === 'tls' ? 443 : 80) : Number(url.port)]
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const version = isIP(host)
  if (version !== 0) return { cidr: `${host}/${version === 4 ? 32 : 128}`, ports }
  return /^[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9_])?$/.test(host) ? { host, ports, protocol } : undefined
}

/** npm prints its defaults, too. A scope has a registry of its own: `@scope:registry`. */
async function npm(env: NodeJS.ProcessEnv): Promise<string[]> {
  const text = await outputOf('npm', ['config', 'ls', '--long', '--json'], env)
  const config = json(text)
  return Object.entries(config)
    .filter(([name]) => name === 'registry' || name.endsWith(':registry'))
    .map(([, value]) => String(value))
}

/** pip prints what is configured. Its default is a constant of its own. */
async function pip(env: NodeJS.ProcessEnv): Promise<string[]> {
  const options = { PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_NO_INPUT: '1' }
  const text = await outputOf('python3', ['-m', 'pip', 'config', 'list'], { ...env, ...options })
  const lines = [...text.matchAll(/^\S*?(extra-index-url|index-url)='(.*)'$/gm)]
  const urls = lines.flatMap(([, , value]) => value!.split(/\s+|\\n/))
  const named = [env.PIP_INDEX_URL, ...(env.PIP_EXTRA_INDEX_URL ?? '').split(/\s+/)]
  const all = [...urls, ...named].filter((url) => url !== undefined && url !== '') as string[]
  if (env.PIP_INDEX_URL || lines.some(([, name]) => name === 'index-url')) return all
  const code = 'from pip._internal.models.index import PyPI; print(PyPI.simple_url)'
  return [...all, (await outputOf('python3', ['-c', code], env)).trim()]
}

/** cargo prints no configuration, so its files are read. Its default registry is not in them. */
async function cargo(env: NodeJS.ProcessEnv): Promise<string[]> {
  const home = env.CARGO_HOME ?? path.join(env.HOME ?? homedir(), '.cargo')
  const text = readText(path.join(home, 'config.toml')) ?? readText(path.join(home, 'config')) ?? ''
  const files = [...text.matchAll(/^\s*(?:registry|index)\s*=\s*["'](?:sparse\+)?(https?:[^"']*)["']/gm)]
  const variables = Object.entries(env).filter(([name]) =>
    /^CARGO_(REGISTRIES_\w+_INDEX|SOURCE_\w+_REGISTRY)$/.test(name),
  )
  const named = variables.map(([, url]) => (url ?? '').replace(/^sparse\+/, ''))
  return [...files.map(([, url]) => url!), ...named]
}

async function go(env: NodeJS.ProcessEnv): Promise<string[]> {
  const text = await outputOf('go', ['env', '-json', 'GOPROXY', 'GOSUMDB'], env)
  const { GOPROXY = '', GOSUMDB = '' } = json(text)
  const [database = '', url] = String(GOSUMDB).split(/\s+/)
  // The database is a host name, perhaps with its key: `name`, `name+key`, `name+key URL`.
  const name = database.split('+')[0]!
  return [...String(GOPROXY).split(/[,|]/), url ?? (name.includes('.') ? `https://${name}` : '')]
}

/** One line for each source (`deb URL …`), or paragraphs with `URIs: URL URL`. */
async function apt(): Promise<string[]> {
  const folder = '/etc/apt/sources.list.d'
  const files = ['/etc/apt/sources.list', ...namesIn(folder).map((name) => path.join(folder, name))]
  const text = files
    .filter((file) => /\.(list|sources)$/.test(file))
    .map((file) => readText(file) ?? '')
    .join('\n')
  const lines = [...text.matchAll(/^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)/gm)].map(([, url]) => url!)
  const paragraphs = [...text.matchAll(/^URIs:\s*(.*)$/gim)].flatMap(([, urls]) => urls!.split(/\s+/))
  return [...lines, ...paragraphs]
}

/** Empty if the program is absent or fails. Run in `/`, so that no project's configuration counts. */
function outputOf(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  return new Promise((resolve) => {
    const settings = { env, cwd: '/', timeout: PROGRAM_MS, maxBuffer: 4 * 1024 * 1024 }
    execFile(program, args, settings, (error, stdout) => resolve(error ? '' : stdout))
  })
}

function json(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}
