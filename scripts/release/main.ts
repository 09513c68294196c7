/** `npm run release -- --dry-run | --publish`: builds, packs and tries all packages; see docs/releasing.md. */
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { root, run, stages } from '../tools.ts'
import { checkChangelog } from './changelog.ts'
import { checkPackages } from './lint.ts'
import { packAll, type Tarball } from './pack.ts'
import { type Binaries, buildBinaries } from './programs.ts'
import { compareSizes, writeChecksums } from './sizes.ts'
import { tryPackages } from './trial.ts'
import { checkVersions, setVersion } from './version.ts'

const usage = `usage: npm run release -- --dry-run | --publish | --set-version 1.2.3

  --dry-run      do everything except publish; the tarballs are in release/
  --publish      do everything, then publish to the registry that npm is configured for
  --set-version  write this version into all manifests, and stop
  --accept-sizes write the sizes of this release into scripts/release/sizes.json`

const options = readOptions()
if (options['set-version'] !== undefined) {
  setVersion(options['set-version'])
  process.exit(await run('npm', ['install', '--package-lock-only']))
}

/** The folder of all build results; not committed. */
const output = path.join(root, 'release')
rmSync(output, { recursive: true, force: true })
mkdirSync(output, { recursive: true })
let binaries: readonly Binaries[] = []
let tarballs: readonly Tarball[] = []

await stages([
  { name: 'versions', run: async () => checkVersions() },
  { name: 'changelog', run: async () => checkChangelog({ isDryRun: !options.publish }) },
  { name: 'build', run: () => run('node', ['scripts/build.ts']) },
  {
    name: 'runner and gateway',
    run: async () => {
      binaries = await buildBinaries(path.join(output, 'binaries'))
      // A release without a platform would break its users; a dry run may lack the cross compiler.
      return options.publish && binaries.some(({ files }) => files === undefined) ? 1 : 0
    },
  },
  {
    name: 'pack',
    run: async () => {
      tarballs = await packAll(binaries, output)
      return 0
    },
  },
  { name: 'publint and @arethetypeswrong/cli', run: () => checkPackages(tarballs) },
  { name: 'install and run', run: () => tryPackages(tarballs) },
  { name: 'sizes', run: async () => compareSizes(tarballs, options['accept-sizes'] ?? false) },
  { name: 'checksums', run: async () => writeChecksums(tarballs, output) },
  ...(options.publish ? [{ name: 'publish', run: publish }] : []),
])
console.log(
  options.publish ? '\nPublished.' : `\nNothing was published. Tarballs: ${path.relative(root, output)}/`,
)

async function publish(): Promise<number> {
  for (const { file } of tarballs) {
    const code = await run('npm', ['publish', '--access', 'public', file])
    if (code !== 0) return code
  }
  return 0
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        'dry-run': { type: 'boolean' },
        publish: { type: 'boolean' },
        'set-version': { type: 'string' },
        'accept-sizes': { type: 'boolean' },
      },
    })
    const modes = [values['dry-run'], values.publish, values['set-version']].filter(Boolean)
    if (modes.length !== 1) throw new Error('Choose one of --dry-run, --publish and --set-version.')
    return values
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usage}`)
    process.exit(2)
  }
}
