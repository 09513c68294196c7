/**
 * Finds code that uses the class `Sandbox` by name: `env.Sandbox`, its type, its re-export, and the SDK's
 * `proxyToSandbox`, which only uses `env.Sandbox`. Searches the syntax tree, so comments do not count.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Expression } from 'oxc-parser'
import { Visitor } from 'oxc-parser'
import type { ConfigFile } from '../config-file.ts'
import { SDK } from '../discover/class-chain.ts'
import { keyName, unwrap } from '../discover/evaluate.ts'
import { indexModule, placeIn, type SourceModule } from '../discover/module.ts'
import { dotRelative, posixRelative } from '../paths.ts'
import { isObject } from '../plan/edits.ts'
import type { PlannedSandbox } from '../plan/plan.ts'
import { CloudflareSyncError, type Place, type Problem } from '../problem.ts'

export interface CallSite {
  kind: 'env' | 'proxy' | 'export' | 'type'
  place: Place
  found: string
  instead: string
}

export function findCallSites(
  folder: string,
  root: string,
  configDir: string,
  sandbox: PlannedSandbox,
): CallSite[] {
  const sites: CallSite[] = []
  for (const module of modulesUnder(folder, root)) collect(module, sandbox, configDir, sites)
  return sites
}

/** Without a binding called `Sandbox`, every `proxyToSandbox(request, env)` responds with 500. */
export function proxyProblems(config: ConfigFile, root: string, sandboxes: PlannedSandbox[]): Problem[] {
  const [first] = sandboxes
  const bindings = isObject(config.value.durable_objects) ? config.value.durable_objects.bindings : []
  const hasSandbox =
    Array.isArray(bindings) && bindings.some((one) => isObject(one) && one.name === 'Sandbox')
  if (!first || hasSandbox) return []
  const sites = findCallSites(sourceFolder(config, root), root, config.dir, first)
  return sites
    .filter(({ kind }) => kind === 'proxy')
    .map(({ place, instead }) => ({
      severity: 'warning',
      code: 'proxy-to-sandbox',
      message:
        'proxyToSandbox only uses env.Sandbox, which this Worker does not have: preview URLs respond with 500',
      place,
      fix:
        sandboxes.length === 1
          ? `write \`${instead}\``
          : 'use `proxyToSandboxes` from @sandkasten/cloudflare/preview',
    }))
}

/** The folder of the Worker's main module, or the project's `src`. */
export function sourceFolder(config: ConfigFile, root: string): string {
  const { main } = config.value
  const folder = typeof main === 'string' ? dirname(resolve(config.dir, main)) : join(root, 'src')
  return folder === resolve(root) ? join(root, 'src') : folder
}

function collect(module: SourceModule, sandbox: PlannedSandbox, configDir: string, sites: CallSite[]): void {
  const add = (kind: CallSite['kind'], node: { start: number; end: number }, instead: string) => {
    const found = module.text.slice(node.start, node.end).split('\n')[0]!
    sites.push({ kind, place: placeIn(module, node.start), found, instead })
  }
  const proxies = new Set(
    [...module.imports].flatMap(([local, from]) => (isSdk(from, 'proxyToSandbox') ? [local] : [])),
  )
  new Visitor({
    MemberExpression: (node) => {
      const name = node.property.type === 'PrivateIdentifier' ? '' : keyName(node.property, node.computed)
      if (name === 'Sandbox' && isEnv(node.object))
        add('env', node, `${text(module, node.object)}.${sandbox.binding}`)
    },
    VariableDeclarator: ({ id, init }) => {
      if (id.type !== 'ObjectPattern' || !init || !isEnv(init)) return
      const old = id.properties.find(
        (one) => one.type === 'Property' && keyName(one.key, one.computed) === 'Sandbox',
      )
      if (old) add('env', old, `${sandbox.binding}`)
    },
    CallExpression: (node) => {
      const callee = unwrap(node.callee)
      if (callee.type !== 'Identifier' || !proxies.has(callee.name)) return
      const [request, env] = node.arguments
      const names = env?.type === 'ObjectExpression' ? env.properties : []
      if (names.some((one) => one.type === 'Property' && keyName(one.key, one.computed) === 'Sandbox')) return
      const [first, second] = [request, env].map((one, index) =>
        one ? text(module, one) : ['request', 'env'][index]!,
      )
      add('proxy', node, `${callee.name}(${first}, { Sandbox: ${second}.${sandbox.binding} })`)
    },
    TSPropertySignature: (node) => {
      const type = node.typeAnnotation ? text(module, node.typeAnnotation) : ''
      if (keyName(node.key, node.computed) === 'Sandbox' && type.includes('DurableObjectNamespace')) {
        add('type', node, `${sandbox.binding}: DurableObjectNamespace<${sandbox.className}>`)
      }
    },
  }).visit(module.program)
  const exported = module.exports.get('Sandbox')
  if (exported && (exported.source === SDK || isSdk(module.imports.get(exported.local), 'Sandbox'))) {
    const target = dotRelative(dirname(module.path), resolve(configDir, sandbox.key)).replace(/\.ts$/, '')
    const node = { start: exported.start, end: exported.start + 'Sandbox'.length }
    add('export', node, `export { default as ${sandbox.className} } from '${target}'`)
  }
}

function* modulesUnder(folder: string, root: string): Generator<SourceModule> {
  for (const entry of readdirOrNone(folder)) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && !/^(node_modules|dist|build|\..*)$/.test(entry.name))
      yield* modulesUnder(path, root)
    if (!entry.isFile() || !/\.[cm]?[jt]sx?$/.test(entry.name) || /\.d\.[cm]?ts$/.test(entry.name)) continue
    const source = readFileSync(path, 'utf8')
    if (!/\bSandbox\b|proxyToSandbox/.test(source)) continue
    try {
      yield indexModule(path, posixRelative(root, path), source)
    } catch (error) {
      // Files that do not parse are skipped; sandbox files are reported where they are read.
      if (!(error instanceof CloudflareSyncError)) throw error
    }
  }
}

function readdirOrNone(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

function isSdk(from: { source: string; imported: string } | undefined, name: string): boolean {
  return from?.source === SDK && from.imported === name
}

/** `env`, `c.env`, `this.env`, `ctx.env`. */
function isEnv(wrapped: Expression): boolean {
  const node = unwrap(wrapped)
  if (node.type === 'Identifier') return node.name === 'env'
  return (
    node.type === 'MemberExpression' && node.property.type === 'Identifier' && node.property.name === 'env'
  )
}

function text(module: SourceModule, node: { start: number; end: number }): string {
  return module.text.slice(node.start, node.end)
}
