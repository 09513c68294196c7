import { readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { type BuildOptions, build, type Plugin } from 'esbuild'
import { packages } from './packages.ts'
import { root } from './tools.ts'

const source = path.join(root, 'packages/cli/src')
const outdir = path.join(root, 'packages/cli/dist')

/**
 * Bundles the command with the engine and the SDK into one file: loading 250 modules takes longer than starting a
 * sandbox. The file is CommonJS, because Node loads that faster than ES modules.
 * `sandkasten sandbox` is a second file, with the registry and all providers, and so are the two sides of
 * `sandkasten mcp` and `sandkasten discord`: in the first one they would slow down every command. The daemon, the bot and
 * the Cloudflare tools stay separate packages, which are loaded on demand.
 */
export async function bundleCli(): Promise<number> {
  rmSync(outdir, { recursive: true, force: true })
  const actions: Actions = { sandbox: new Set(), mcp: new Set(), broker: new Set(), discord: new Set() }
  const main = await bundle({
    entryPoints: [path.join(source, 'main.ts')],
    outfile: path.join(outdir, 'main.cjs'),
    plugins: [keepLocations, deferredActions(actions)],
  })
  const deferred = await Promise.all(
    Object.entries(actions).map(([name, files]) =>
      bundle({
        stdin: {
          contents: [...files].map((file) => `export * from ${JSON.stringify(file)}`).join('\n'),
          resolveDir: source,
        },
        outfile: path.join(outdir, `${name}.cjs`),
        plugins: [keepLocations],
      }),
    ),
  )
  return deferred.reduce((sum, errors) => sum + errors, main)
}

async function bundle(options: BuildOptions): Promise<number> {
  const result = await build({
    ...options,
    bundle: true,
    // A third less to read at every start. Names stay, for stack traces.
    minifyWhitespace: true,
    minifySyntax: true,
    format: 'cjs',
    platform: 'node',
    target: 'node22',
    conditions: ['sandkasten-source'],
    // Its main file is UMD, whose calls of `require` cannot be bundled.
    alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' },
    external: [
      '@sandkasten/daemon',
      '@sandkasten/cloudflare',
      '@sandkasten/discord',
      '@sandkasten/threads',
      'dockerode',
      'pg',
    ],
    // `keepLocations` resolves manifests on purpose.
    logOverride: { 'require-resolve-not-external': 'silent' },
    logLevel: 'warning',
  })
  return result.errors.length
}

/** Code that looks for files beside itself uses those of its own package, which is installed too. */
const keepLocations: Plugin = {
  name: 'keep-locations',
  setup({ onLoad }) {
    onLoad({ filter: /packages\/[^/]+\/src\/.*\.ts$/ }, ({ path: file }) => {
      const text = readFileSync(file, 'utf8')
      if (!text.includes('import.meta')) return undefined
      const { name, folder, manifest } = packages.find((one) => file.startsWith(one.folder + path.sep))!
      const inDist = path.relative(path.join(folder, 'src'), file).replace(/\.ts$/, '.js')
      const place =
        name === 'cli'
          ? '__filename'
          : `require('node:path').resolve(require.resolve('${manifest.name}/package.json'), '../dist/${inDist}')`
      const contents = text
        .replaceAll('import.meta.dirname', `require('node:path').dirname(${place})`)
        .replace(/import\.meta\.url(?!:)/g, `require('node:url').pathToFileURL(${place}).href`)
      return { contents, loader: 'ts' }
    })
  },
}

/** Modules with actions, for each further file. */
type Actions = Readonly<Record<'sandbox' | 'mcp' | 'broker' | 'discord', Set<string>>>

/** The agent's side, which must start fast and never opens the registry. */
const agentSide = ['mcp/serve.ts', 'mcp/install.ts']

/** Refers the actions of `sandkasten sandbox` and `sandkasten mcp` to their files, and collects them. */
function deferredActions(found: Actions): Plugin {
  const fileOf = (action: string): keyof Actions | undefined => {
    if (action.startsWith('sandbox/')) return 'sandbox'
    if (action.startsWith('discord/')) return 'discord'
    if (action.startsWith('mcp/')) return agentSide.includes(action) ? 'mcp' : 'broker'
    return undefined
  }
  return {
    name: 'deferred-actions',
    setup({ onResolve }) {
      onResolve({ filter: /^\.\.\// }, ({ path: file, kind, resolveDir }) => {
        if (kind !== 'dynamic-import' || path.basename(resolveDir) !== 'register') return undefined
        const action = path.resolve(resolveDir, file)
        const name = fileOf(path.relative(source, action))
        if (name === undefined) return undefined
        found[name].add(action)
        return { path: `./${name}.cjs`, external: true }
      })
    },
  }
}
