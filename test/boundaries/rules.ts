export interface Import {
  /** The file that imports. */
  readonly from: string
  /** The file, or the package, that it imports. */
  readonly to: string
}

export interface Rule {
  readonly name: string
  /** Files that the rule is about. */
  readonly room: RegExp
  /** What they may import; or what they may not. */
  readonly allows?: RegExp
  readonly forbids?: RegExp
  /** An import that breaks the rule: the test proves that it would be noticed. */
  readonly example: Import
}

const sdk = 'packages/sdk/src'

/** ARCHITECTURE.md, “Rooms and doors”, as data. */
export const rules: readonly Rule[] = [
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
    name: 'shared helpers know the spec and the errors, nobody’s provider',
    room: new RegExp(`^${sdk}/shared/`),
    allows: new RegExp(`^${sdk}/(shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/shared/page.ts`, to: `${sdk}/core/sandbox.ts` },
  },
  {
    name: 'the core knows no provider and no Node module',
    room: new RegExp(`^${sdk}/core/`),
    allows: new RegExp(`^${sdk}/(core/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/core/sandbox.ts`, to: 'node:fs' },
  },
  {
    name: 'the folder room knows no provider',
    room: new RegExp(`^${sdk}/folder/`),
    allows: new RegExp(`^(node:|${sdk}/(folder/|core/|shared/|spec/|errors\\.ts))`),
    example: { from: `${sdk}/folder/driver.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'a provider never imports another provider',
    room: new RegExp(`^${sdk}/providers/local/`),
    allows: new RegExp(`^(node:|${sdk}/(providers/local/|folder/|core/|shared/|spec/|errors\\.ts))`),
    example: { from: `${sdk}/providers/local/index.ts`, to: `${sdk}/providers/memory/index.ts` },
  },
  {
    name: 'the ssh provider knows no other provider; forwarded ports it shares with the engine',
    room: new RegExp(`^${sdk}/providers/ssh/`),
    allows: new RegExp(
      `^(node:|${sdk}/(providers/ssh/|ports/index\\.ts|folder/errors\\.ts|core/|shared/|spec/|errors\\.ts))`,
    ),
    example: { from: `${sdk}/providers/ssh/index.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'forwarded ports know the errors, and nothing else of ours',
    room: new RegExp(`^${sdk}/ports/`),
    allows: new RegExp(`^(node:(net|stream)$|${sdk}/errors\\.ts)`),
    example: { from: `${sdk}/ports/index.ts`, to: `${sdk}/folder/index.ts` },
  },
  {
    name: 'the runner’s client, and the drivers over it, know no provider',
    room: /^packages\/runner-client\/src\/(?!.*(\.test|test-helper)\.ts$)/,
    allows: /^(node:(net|stream|os)$|packages\/runner-client\/src\/|@sandkasten\/sdk(\/provider)?$)/,
    example: { from: 'packages/runner-client/src/client.ts', to: '@sandkasten/sdk/ssh' },
  },
  {
    name: 'the memory provider runs anywhere: no Node module, no other provider',
    room: new RegExp(`^${sdk}/providers/memory/`),
    allows: new RegExp(`^${sdk}/(providers/memory/|core/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/providers/memory/index.ts`, to: 'node:path' },
  },
  {
    name: 'the client of the daemon’s API runs anywhere, and knows no provider',
    room: new RegExp(`^${sdk}/client/(?!.*\\.test\\.ts$)`),
    allows: new RegExp(`^${sdk}/(client/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/client/http.ts`, to: 'node:http' },
  },
  {
    name: 'the daemon provider is the contract over the client: no Node module, no other provider',
    room: new RegExp(`^${sdk}/providers/daemon/(?!.*\\.test\\.ts$)`),
    allows: new RegExp(`^${sdk}/(providers/daemon/|client/index\\.ts|core/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/providers/daemon/process.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'the Daytona provider knows neither its vendor’s package nor another provider',
    room: new RegExp(`^${sdk}/providers/daytona/(?!.*\\.test\\.ts$)`),
    allows: new RegExp(`^${sdk}/(providers/daytona/|core/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/providers/daytona/sdk.ts`, to: '@daytona/sdk' },
  },
  {
    name: 'the E2B provider knows neither its vendor’s package nor another provider, and no Node module',
    room: new RegExp(`^${sdk}/providers/e2b/(?!.*\\.test\\.ts$)`),
    allows: new RegExp(`^${sdk}/(providers/e2b/|core/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/providers/e2b/sdk.ts`, to: 'e2b' },
  },
  {
    name: 'a provider on a vendor’s SDK knows neither the SDK’s package nor another provider',
    room: new RegExp(`^${sdk}/providers/vercel/(?!.*\\.test\\.ts$)`),
    allows: new RegExp(`^${sdk}/(providers/vercel/|core/|shared/|spec/|errors\\.ts)`),
    example: { from: `${sdk}/providers/vercel/sdk.ts`, to: '@vercel/sandbox' },
  },
  {
    name: 'recipes see only the spec',
    room: new RegExp(`^${sdk}/recipes/`),
    allows: new RegExp(`^(node:|${sdk}/(recipes/|shared/|spec/|errors\\.ts|core/supports\\.ts))`),
    example: { from: `${sdk}/recipes/upload.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'what keeps sandboxes and calls going sees only the spec, and runs anywhere',
    room: new RegExp(`^${sdk}/resilience/`),
    allows: new RegExp(`^${sdk}/(resilience/|shared/|spec/|errors\\.ts|core/(supports|validate)\\.ts)`),
    example: { from: `${sdk}/resilience/failover.ts`, to: `${sdk}/providers/daemon/index.ts` },
  },
  {
    name: 'the executor sees only the spec, except where it names a provider for its users',
    room: new RegExp(`^${sdk}/executor/(?!local-executor|vercel-executor)`),
    allows: new RegExp(`^(node:|${sdk}/(executor/|shared/|spec/|errors\\.ts))`),
    example: { from: `${sdk}/executor/provider-executor.ts`, to: `${sdk}/providers/local/index.ts` },
  },
  {
    name: 'the root entry and the author’s entry load where there is no Node',
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
    name: 'the engine knows isolation, not HTTP and not SQL',
    room: /^packages\/engine\//,
    forbids: /^(node:https?|node:http2|node:sqlite|pg|kysely|fastify)$/,
    example: { from: 'packages/engine/src/provider/ports.ts', to: 'node:http' },
  },
  {
    name: 'an isolator starts sandboxes; it neither talks to the runner nor knows the provider',
    room: /^packages\/engine\/src\/(isolators\/(?!(\w+\/)?testing\/)|images\/(?!testing))/,
    forbids: /^(packages\/engine\/src\/(runner|provider|layers|volumes)\/|@sandkasten\/runner-client)/,
    example: { from: 'packages/engine/src/isolators/oci/oci.ts', to: '@sandkasten/runner-client' },
  },
  {
    name: 'the daemon’s API alone knows HTTP',
    room: /^packages\/daemon\/src\/(?!api\/|preview\/|fronts\/|daemon\.ts|testing\/)/,
    forbids: /^(node:https?|node:http2|fastify|ws|packages\/daemon\/src\/api\/.*)$/,
    example: { from: 'packages/daemon/src/sessions/use.ts', to: 'fastify' },
  },
  {
    name: 'the daemon’s store alone knows SQL',
    room: /^packages\/daemon\/src\/(?!store\/)/,
    forbids: /^(node:sqlite|pg|kysely|packages\/daemon\/src\/store\/(?!index\.ts$).*)$/,
    example: { from: 'packages/daemon/src/sessions/create.ts', to: 'kysely' },
  },
  {
    name: 'the store knows nobody',
    room: /^packages\/daemon\/src\/store\//,
    forbids: /^(packages\/daemon\/src\/(?!store\/)|@sandkasten\/engine)/,
    example: { from: 'packages/daemon/src/store/store.ts', to: 'packages/daemon/src/sessions/index.ts' },
  },
  {
    name: 'the API reaches the store through sessions and keys',
    room: /^packages\/daemon\/src\/api\//,
    forbids: /^packages\/daemon\/src\/store\/|^@sandkasten\/engine/,
    example: { from: 'packages/daemon/src/api/server.ts', to: 'packages/daemon/src/store/index.ts' },
  },
  {
    name: 'a front never imports another front',
    room: /^packages\/daemon\/src\/fronts\/e2b\//,
    forbids: /^packages\/daemon\/src\/fronts\/(daytona|vercel|opensandbox)\//,
    example: {
      from: 'packages/daemon/src/fronts/e2b/index.ts',
      to: 'packages/daemon/src/fronts/vercel/index.ts',
    },
  },
  {
    name: 'Daytona’s front never imports another front',
    room: /^packages\/daemon\/src\/fronts\/daytona\//,
    forbids: /^packages\/daemon\/src\/fronts\/(e2b|vercel|opensandbox)\//,
    example: {
      from: 'packages/daemon/src/fronts/daytona/index.ts',
      to: 'packages/daemon/src/fronts/e2b/index.ts',
    },
  },
  {
    name: 'the daemon knows the engine by the SDK’s contract; it is named once',
    room: /^packages\/daemon\/src\/(?!daemon\.ts|testing\/)/,
    forbids: /^@sandkasten\/engine/,
    example: { from: 'packages/daemon/src/sessions/lifecycle.ts', to: '@sandkasten/engine' },
  },
  {
    name: 'layers and volumes are folders: they know neither isolators nor the provider',
    room: /^packages\/engine\/src\/(layers|volumes)\//,
    forbids: /^packages\/engine\/src\/(isolators|provider|images)\//,
    example: {
      from: 'packages/engine/src/layers/store.ts',
      to: 'packages/engine/src/provider/layered-driver.ts',
    },
  },
  {
    name: 'the Cloudflare package depends on nothing else of ours',
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

/** The imports that break a rule, as people read them. */
export function violations(rule: Rule, imports: readonly Import[]): string[] {
  const broken = imports.filter(
    ({ from, to }) => rule.room.test(from) && (rule.allows ? !rule.allows.test(to) : rule.forbids!.test(to)),
  )
  const crossing = rule.name.startsWith('packages reach')
    ? imports.filter(({ from, to }) => to.startsWith('packages/') && packageOf(from) !== packageOf(to))
    : []
  return [...new Set([...broken, ...crossing].map(({ from, to }) => `${from} imports ${to}`))]
}

function packageOf(file: string): string | undefined {
  return file.split('/')[1]
}
