import { readFileSync } from 'node:fs'
import path from 'node:path'
import { build, type Plugin } from 'esbuild'
import { packages } from './packages.ts'
import { root } from './tools.ts'

/**
 * Bundles the command with the engine and the SDK into a few files: loading 250 modules takes longer than starting a sandbox.
 * The daemon and the Cloudflare tools stay separate packages, which are loaded on demand.
 */
export async function bundleCli(): Promise<number> {
  const result = await build({
    entryPoints: [path.join(root, 'packages/cli/src/main.ts')],
    outdir: path.join(root, 'packages/cli/dist'),
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    conditions: ['sandkasten-source'],
    external: ['@sandkasten/daemon', '@sandkasten/cloudflare', 'dockerode'],
    plugins: [keepLocations],
    // Commander is CommonJS.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
    },
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
      const { name, folder, manifest } = packages.find((one) => file.startsWith(one.folder + path.sep))!
      if (name === 'cli' || !text.includes('import.meta')) return undefined
      const inDist = path.relative(path.join(folder, 'src'), file).replace(/\.ts$/, '.js')
      const url = `new URL('./dist/${inDist}', import.meta.resolve('${manifest.name}/package.json'))`
      const contents = text
        .replaceAll(
          'import.meta.dirname',
          `process.getBuiltinModule('node:url').fileURLToPath(new URL('.', ${url}))`,
        )
        .replace(/import\.meta\.url(?!:)/g, `${url}.href`)
      return { contents, loader: 'ts' }
    })
  },
}
