import { readdirSync } from 'node:fs'
import path from 'node:path'

/** One import, or one property path such as `services.sessions.list`, in a file. */
export interface Reference {
  readonly from: string
  /** The file, the package or the property path that it refers to. */
  readonly to: string
}

export interface Rule {
  readonly name: string
  /** The kind of references to check. Default: imports. */
  readonly sees?: 'imports' | 'properties'
  /** The files that the rule applies to. */
  readonly room: RegExp
  /** References that these files may or may not have. */
  readonly allows?: RegExp
  readonly forbids?: RegExp
  /** A reference that breaks the rule. The test checks that the rule catches it. */
  readonly example: Reference
}

export const root = path.resolve(import.meta.dirname, '../..')
const sdk = 'packages/sdk/src'
const engine = 'packages/engine/src'
const daemon = 'packages/daemon/src'
const registry = 'packages/registry/src'
const mcp = 'packages/mcp/src'
const opencode = 'packages/opencode/src'
const discord = 'packages/discord/src'

/** Further imports of a provider beside itself and the SDK's core. Other providers get none. */
const providerExtras: Readonly<Record<string, string>> = {
  local: `|node:|${sdk}/folder/`,
  ssh: `|node:|${sdk}/(ports/index|folder/errors)\\.ts`,
  daemon: `|${sdk}/client/index\\.ts`,
}

const providerRules = foldersIn(`${sdk}/providers`).map((name, at, all): Rule => {
  const own = `${sdk}/providers/${name}/`
  const other = all[(at + 1) % all.length]
  return {
    name: `provider ${name}: imports no other provider, no vendor SDK, and only the listed parts of this SDK`,
    room: new RegExp(`^${own}`),
    allows: new RegExp(`^(${own}|${sdk}/(core/|shared/|spec/|errors\\.ts)${providerExtras[name] ?? ''})`),
    example: { from: `${own}index.ts`, to: `${sdk}/providers/${other}/index.ts` },
  }
})

const notForIsolators = new RegExp(`^(${engine}/(runner|provider|layers|volumes)/|@sandkasten/runner-client)`)

const isolatorRules = foldersIn(`${engine}/isolators`)
  .filter((name) => name !== 'testing')
  .map(
    (name): Rule => ({
      name: `isolator ${name}: starts sandboxes, and knows neither the runner's client nor the provider`,
      room: new RegExp(`^${engine}/isolators/${name}/(?!testing/)`),
      forbids: notForIsolators,
      example: { from: `${engine}/isolators/${name}/index.ts`, to: `${engine}/provider/index.ts` },
    }),
  )

const frontRules = foldersIn(`${daemon}/fronts`)
  .filter((name) => name !== 'shared')
  .map(
    (name): Rule => ({
      name: `front ${name}: imports no other front`,
      room: new RegExp(`^${daemon}/fronts/${name}/`),
      forbids: new RegExp(`^${daemon}/fronts/(?!${name}/|shared/)[^/]+/`),
      example: { from: `${daemon}/fronts/${name}/index.ts`, to: `${daemon}/fronts/another/index.ts` },
    }),
  )

/** ARCHITECTURE.md, “Rooms and doors”, as data. */
export const rules: readonly Rule[] = [
  ...providerRules,
  ...isolatorRules,
  ...frontRules,
  {
    name: 'the spec imports nothing but itself',
    room: new RegExp(`^${sdk}/spec/`),
    allows: new RegExp(`^${sdk}/spec/`),
    example: { from: `${sdk}/spec/sandbox.ts`, to: `${sdk}/core/sandbox.ts` },
  },
  {
    name: 'the error table imports nothing',
    room: new RegExp(`^${sdk}/errors\\.ts$`),
    allows: /^$/,
    example: { from: `${sdk}/errors.ts`, to: `${sdk}/spec/index.ts` },
  },
  {
    name: 'shared helpers import only the spec and the errors',
    room: new RegExp(`^${sdk}/shared/`),
    allows: new RegExp(`^${sdk}/(shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/shared/page.ts`, to: `${sdk}/core/sandbox.ts` },
  },
  {
    name: 'the core imports no provider and no Node module',
    room: new RegExp(`^${sdk}/core/`),
    allows: new RegExp(`^${sdk}/(core/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/core/sandbox.ts`, to: 'node:fs' },
  },
  {
    name: 'the folder room imports no provider',
    room: new RegExp(`^${sdk}/folder/`),
    allows: new RegExp(`^(node:|${sdk}/(folder/|core/|shared/|spec/|errors\\.ts))`),
    example: { from: `${sdk}/folder/driver.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'forwarded ports import only the errors',
    room: new RegExp(`^${sdk}/ports/`),
    allows: new RegExp(`^(node:(net|stream)$|${sdk}/errors\\.ts)`),
    example: { from: `${sdk}/ports/index.ts`, to: `${sdk}/folder/index.ts` },
  },
  {
    name: 'the runner’s client and the drivers over it import no provider',
    room: /^packages\/runner-client\/src\/(?!.*(\.test|test-helper)\.ts$)/,
    allows: /^(node:(net|stream|os)$|packages\/runner-client\/src\/|@sandkasten\/sdk(\/provider)?$)/,
    example: { from: 'packages/runner-client/src/client.ts', to: '@sandkasten/sdk/ssh' },
  },
  {
    name: 'the database package imports only its drivers and the errors of the SDK',
    room: /^packages\/database\/src\/(?!testing\/)/,
    allows:
      /^(node:(crypto|fs|fs\/promises|path|sqlite)$|(kysely|pg)$|packages\/database\/src\/(?!testing\/)|@sandkasten\/sdk(\/internal)?$)/,
    example: { from: 'packages/database/src/database.ts', to: '@sandkasten/sdk/client' },
  },
  {
    name: 'only stores import the database package',
    room: /^packages\/(?!database\/|[^/]+\/src\/store\/)/,
    forbids: /^@sandkasten\/database(\/(?!sealed$)|$)/,
    example: { from: 'packages/daemon/src/sessions/create.ts', to: '@sandkasten/database' },
  },
  {
    name: 'only stores and the rooms for secrets import encrypted values',
    room: /^packages\/(?!database\/|[^/]+\/src\/(store|secrets|credentials)\/|.*\/testing\/)/,
    forbids: /^@sandkasten\/database\/sealed$/,
    example: { from: 'packages/daemon/src/sessions/create.ts', to: '@sandkasten/database/sealed' },
  },
  {
    name: 'the client of the daemon’s API imports no Node module and no provider',
    room: new RegExp(`^${sdk}/client/(?!.*\\.test\\.ts$)`),
    allows: new RegExp(`^${sdk}/(client/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/client/http.ts`, to: 'node:http' },
  },
  {
    name: 'recipes import only the spec',
    room: new RegExp(`^${sdk}/recipes/`),
    allows: new RegExp(`^(node:|${sdk}/(recipes/|shared/|spec/|errors\\.ts|core/supports\\.ts))`),
    example: { from: `${sdk}/recipes/upload.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'resilience imports only the spec, and no Node module',
    room: new RegExp(`^${sdk}/resilience/`),
    allows: new RegExp(`^${sdk}/(resilience/|shared/|spec/|errors\\.ts|core/(supports|validate)\\.ts)`),
    example: { from: `${sdk}/resilience/failover.ts`, to: `${sdk}/providers/daemon/index.ts` },
  },
  {
    name: 'the executor imports only the spec and resilience, except in the two files that name a provider',
    room: new RegExp(`^${sdk}/executor/(?!local-executor|vercel-executor)`),
    allows: new RegExp(
      `^(node:|${sdk}/(executor/|shared/|spec/|errors\\.ts|core/(supports|validate)\\.ts|resilience/index\\.ts))`,
    ),
    example: { from: `${sdk}/executor/provider-executor.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'the root entry and the entry for provider authors load without Node',
    room: new RegExp(`^${sdk}/(index|provider)\\.ts$`),
    allows: new RegExp(`^${sdk}/(core/|resilience/index\\.ts|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/index.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'nothing in the SDK imports a package',
    room: new RegExp(`^${sdk}/`),
    allows: /^(packages\/sdk\/src\/|node:)/,
    example: { from: `${sdk}/providers/vercel/index.ts`, to: '@vercel/sandbox' },
  },
  {
    name: 'the engine imports neither HTTP nor SQL',
    room: /^packages\/engine\//,
    forbids: /^(node:https?|node:http2|node:sqlite|pg|kysely|fastify|@sandkasten\/database)$/,
    example: { from: 'packages/engine/src/provider/ports.ts', to: 'node:http' },
  },
  {
    name: 'images and the files that isolators share know neither the runner’s client nor the provider',
    room: new RegExp(`^${engine}/(isolators/[^/]+$|images/(?!testing))`),
    forbids: notForIsolators,
    example: { from: `${engine}/isolators/isolator.ts`, to: '@sandkasten/runner-client' },
  },
  {
    name: 'in the daemon only api, http, preview and fronts import HTTP',
    room: /^packages\/daemon\/src\/(?!api\/|http\/|preview\/|fronts\/|daemon\.ts|testing\/)/,
    forbids: /^(node:https?|node:http2|fastify|ws|packages\/daemon\/src\/(api|http)\/.*)$/,
    example: { from: 'packages/daemon/src/sessions/use.ts', to: 'fastify' },
  },
  {
    name: 'in the daemon only the store imports SQL, and others import only its index',
    room: /^packages\/daemon\/src\/(?!store\/)/,
    forbids: /^(node:sqlite|pg|kysely|packages\/daemon\/src\/store\/(?!index\.ts$).*)$/,
    example: { from: 'packages/daemon/src/sessions/create.ts', to: 'kysely' },
  },
  {
    name: 'the store imports no other room of the daemon',
    room: /^packages\/daemon\/src\/store\//,
    forbids: /^(packages\/daemon\/src\/(?!store\/)|@sandkasten\/engine)/,
    example: { from: 'packages/daemon/src/store/store.ts', to: 'packages/daemon/src/sessions/index.ts' },
  },
  {
    name: 'the API and its HTTP helpers reach the store through sessions and keys',
    room: /^packages\/daemon\/src\/(api|http)\//,
    forbids: /^packages\/daemon\/src\/store\/|^@sandkasten\/engine/,
    example: { from: 'packages/daemon/src/api/server.ts', to: 'packages/daemon/src/store/index.ts' },
  },
  {
    name: 'preview and fronts take HTTP helpers from http, not from api',
    room: new RegExp(`^${daemon}/(http|preview|fronts)/`),
    forbids: new RegExp(`^${daemon}/api/`),
    example: { from: `${daemon}/fronts/e2b/index.ts`, to: `${daemon}/api/server.ts` },
  },
  {
    name: 'api, http, preview and fronts do not reach around SessionService',
    sees: 'properties',
    room: new RegExp(`^${daemon}/(api|http|preview|fronts)/`),
    forbids: /(^|\.)sessions\.#?(context|store|live)\b/,
    example: { from: `${daemon}/fronts/e2b/ports.ts`, to: 'place.services.sessions.context.store' },
  },
  {
    name: 'api, http, preview and fronts do not query the store',
    sees: 'properties',
    room: new RegExp(`^${daemon}/(api|http|preview|fronts)/`),
    forbids: /(^|\.)store\.(db|sessions|execs|ports|records|snapshots|keys)\b/,
    example: { from: `${daemon}/fronts/vercel/views.ts`, to: 'desk.store.ports.list' },
  },
  {
    name: 'only the store uses its database connection',
    sees: 'properties',
    room: new RegExp(`^${daemon}/(?!store/|testing/)`),
    forbids: /(^|\.)store\.#?db\b/,
    example: { from: `${daemon}/sessions/create.ts`, to: 'this.context.store.db.selectFrom' },
  },
  {
    name: 'in the command only `sandkasten sandbox`, the broker and the bot import the registry, and others reach them by their registration',
    room: /^packages\/cli\/src\/(?!sandbox\/|mcp\/|discord\/)/,
    forbids: /^(@sandkasten\/registry$|packages\/cli\/src\/sandbox\/(?!register\/index\.ts$))/,
    example: { from: 'packages/cli/src/run.ts', to: '@sandkasten/registry' },
  },
  {
    name: 'the agent’s side of `sandkasten mcp` imports neither the registry nor a provider',
    room: /^packages\/cli\/src\/mcp\/(?!broker\.ts|token\.ts|register\/)/,
    forbids: /^(@sandkasten\/(registry|engine|sdk\/)|packages\/cli\/src\/sandbox\/)/,
    example: { from: 'packages/cli/src/mcp/serve.ts', to: 'packages/cli/src/sandbox/open.ts' },
  },
  {
    name: 'in the command only `sandkasten code` and `sandkasten workspaces` import agents',
    room: /^packages\/cli\/src\/(?!sandbox\/(code|workspaces)\/)/,
    forbids: /^@sandkasten\/opencode$/,
    example: { from: 'packages/cli/src/sandbox/exec.ts', to: '@sandkasten/opencode' },
  },
  {
    name: 'conversations know no chat system',
    room: /^packages\/threads\/src\//,
    forbids: /^(discord|@discordjs\/|@sandkasten\/discord|packages\/(discord|cli)\/|node:readline)/,
    example: { from: 'packages/threads/src/engine.ts', to: 'discord.js' },
  },
  {
    name: 'in conversations only the store knows SQL',
    room: /^packages\/threads\/src\/(?!store\/)/,
    forbids: /^kysely$/,
    example: { from: 'packages/threads/src/engine.ts', to: 'kysely' },
  },
  {
    name: 'in conversations only agents and the bridge know opencode, MCP and HTTP',
    room: /^packages\/threads\/src\/(?!(agents|bridge)\/|agent-opener\.ts$|index\.ts$)/,
    forbids:
      /^(@sandkasten\/(opencode|mcp)(\/|$)|@modelcontextprotocol\/|node:https?$|packages\/threads\/src\/(agents|bridge)\/)/,
    example: { from: 'packages/threads/src/conversations/turn.ts', to: '@sandkasten/opencode' },
  },
  {
    name: 'opencode’s plugin imports what Node and Bun have, and nothing else',
    room: /^packages\/opencode\/src\/plugin\//,
    allows: /^(node:(child_process|crypto|readline)$|packages\/opencode\/src\/plugin\/)/,
    example: { from: 'packages/opencode/src/plugin/helper.ts', to: '@sandkasten/sdk' },
  },
  {
    name: 'in the daemon only daemon.ts imports the engine',
    room: /^packages\/daemon\/src\/(?!daemon\.ts|testing\/)/,
    forbids: /^@sandkasten\/engine/,
    example: { from: 'packages/daemon/src/sessions/lifecycle.ts', to: '@sandkasten/engine' },
  },
  {
    name: 'layers and volumes import neither isolators nor the provider',
    room: /^packages\/engine\/src\/(layers|volumes)\//,
    forbids: /^packages\/engine\/src\/(isolators|provider|images)\//,
    example: {
      from: 'packages/engine/src/layers/store.ts',
      to: 'packages/engine/src/provider/layered-driver.ts',
    },
  },
  {
    name: 'the registry sees providers through the spec and the tables of settings, and never the engine',
    room: new RegExp(`^${registry}/(?!.*testing/)`),
    allows: new RegExp(
      `^(node:|${registry}/|kysely$|@sandkasten/database(/sealed)?$|@sandkasten/sdk(/(provider|internal|recipes|auto))?$)`,
    ),
    example: { from: `${registry}/lifecycle/create.ts`, to: '@sandkasten/engine' },
  },
  {
    name: 'in the registry only the store imports SQL',
    room: new RegExp(`^${registry}/(?!store/|.*testing/)`),
    forbids: /^(node:sqlite|pg|kysely|@sandkasten\/database)$/,
    example: { from: `${registry}/lifecycle/create.ts`, to: 'kysely' },
  },
  {
    name: 'the store of the registry imports no room that uses it',
    room: new RegExp(`^${registry}/store/(?!testing/)`),
    forbids: new RegExp(`^${registry}/(?!store/|names\\.ts$|words\\.ts$|types\\.ts$|context\\.ts$)`),
    example: { from: `${registry}/store/store.ts`, to: `${registry}/leases/index.ts` },
  },
  {
    name: 'leases know the rows, and no provider',
    room: new RegExp(`^${registry}/leases/`),
    allows: new RegExp(`^(node:|${registry}/(leases|store)/|@sandkasten/sdk(/(provider|internal))?$)`),
    example: { from: `${registry}/leases/operate.ts`, to: '@sandkasten/sdk/auto' },
  },
  {
    name: 'tools for agents see providers through the spec and the registry only',
    room: new RegExp(`^${mcp}/(?!.*testing/)`),
    allows: new RegExp(
      `^(node:|${mcp}/|zod$|jsonc-parser$|@modelcontextprotocol/(node|server(/stdio)?)$|@sandkasten/(registry|sdk(/(provider|internal))?)$)`,
    ),
    example: { from: `${mcp}/tools/run-command.ts`, to: '@sandkasten/sdk/e2b' },
  },
  {
    name: 'tools and sources know neither MCP nor HTTP',
    room: new RegExp(`^${mcp}/(tools|sources|calls)/`),
    forbids: new RegExp(`^(node:https?$|@modelcontextprotocol/|${mcp}/(server|broker|install)/)`),
    example: { from: `${mcp}/tools/status.ts`, to: '@modelcontextprotocol/server' },
  },
  {
    name: 'agents inside sandboxes see providers through the spec only',
    room: new RegExp(`^${opencode}/(?!testing/|plugin/)`),
    allows: new RegExp(`^(node:|${opencode}/(?!testing/)|@sandkasten/sdk$)`),
    example: { from: `${opencode}/bootstrap/serve.ts`, to: '@sandkasten/sdk/auto' },
  },
  {
    name: 'in the agents’ package only one room speaks HTTP',
    room: new RegExp(`^${opencode}/(?!http/|testing/|plugin/)`),
    forbids: /^node:https?$/,
    example: { from: `${opencode}/server/health.ts`, to: 'node:http' },
  },
  {
    name: 'the bot sees the engine of threads by its entry, and providers through the tables of settings',
    room: new RegExp(`^${discord}/(?!twin/|testing/|.*\\.test\\.ts$)`),
    allows: new RegExp(
      `^(${discord}/(?!twin/|testing/)|discord\\.js$|@sandkasten/(registry|threads|sdk(/auto)?)$|node:timers/promises$)`,
    ),
    example: { from: `${discord}/commands/sandbox.ts`, to: '@sandkasten/sdk/daytona' },
  },
  {
    name: 'of the bot only bot and rest know discord.js',
    room: new RegExp(`^${discord}/(?!bot/|rest/|twin/)`),
    forbids: /^discord\.js$/,
    example: { from: `${discord}/commands/sandbox.ts`, to: 'discord.js' },
  },
  {
    name: 'what is shown in Discord is rendered without Discord',
    room: new RegExp(`^${discord}/(show|questions|writer)/(?!.*\\.test\\.ts$)`),
    allows: new RegExp(`^(${discord}/(show|questions|writer)/|@sandkasten/threads$)`),
    example: { from: `${discord}/show/answer.ts`, to: `${discord}/rest/messages.ts` },
  },
  {
    name: 'the twin of Discord knows nothing of the bot',
    room: new RegExp(`^${discord}/twin/`),
    forbids: new RegExp(`^(${discord}/(?!twin/)|@sandkasten/)`),
    example: { from: `${discord}/twin/core.ts`, to: `${discord}/bot/create-bot.ts` },
  },
  {
    name: 'the Cloudflare package imports no other package of ours',
    room: /^packages\/cloudflare\//,
    forbids: /^(@sandkasten\/|packages\/(?!cloudflare\/))/,
    example: { from: 'packages/cloudflare/src/index.ts', to: '@sandkasten/sdk' },
  },
  {
    name: 'packages reach each other through published exports only',
    room: /^packages\//,
    forbids: /^(@sandkasten\/[^/]+\/(src|dist)\b)|^\.\.\/\.\.\/\.\./,
    example: { from: 'packages/cli/src/index.ts', to: '@sandkasten/sdk/src/index.ts' },
  },
]

/** The references that break a rule, as sentences. */
export function violations(rule: Rule, references: readonly Reference[]): string[] {
  const broken = references.filter(
    ({ from, to }) => rule.room.test(from) && (rule.allows ? !rule.allows.test(to) : rule.forbids!.test(to)),
  )
  const crossing = rule.name.startsWith('packages reach')
    ? references.filter(({ from, to }) => to.startsWith('packages/') && packageOf(from) !== packageOf(to))
    : []
  const verb = rule.sees === 'properties' ? 'uses' : 'imports'
  return [...new Set([...broken, ...crossing].map(({ from, to }) => `${from} ${verb} ${to}`))]
}

function packageOf(file: string): string | undefined {
  return file.split('/')[1]
}

function foldersIn(folder: string): string[] {
  return readdirSync(path.join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
}
