import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import type { Draft } from '../drafts.ts'
import { addImage, keepLayer, layerDraft } from '../import/add.ts'
import { type ConfigDocument, thisPlatform, writeManifest } from '../import/manifest.ts'
import { type Unpacking, unpackStream } from '../import/unpack.ts'
import { type ImagePlaces, sha256 } from '../places.ts'
import type { ImageRecord } from '../record.ts'
import { parseReference } from '../reference.ts'
import { runProgram } from '../run-program.ts'
import type { ImportOptions } from '../store.ts'
import { aptSources } from './apt-sources.ts'
import { type Recipe, readRecipe } from './recipes.ts'

export interface BuildOptions {
  readonly mmdebstrap?: string
}

/** Files that a sandbox never reads: manuals and translations. */
const LEFT_OUT = ['man', 'info', 'lintian', 'linda', 'groff', 'locale'].map((name) => `/usr/share/${name}/*`)

/**
 * Builds an image from a recipe with `mmdebstrap`, as root. Packages come from this machine's own apt sources and
 * become one layer. The image does not record these sources.
 */
export async function buildImage(
  places: ImagePlaces,
  draft: Draft,
  recipeName: string,
  options: ImportOptions & BuildOptions & Pick<Unpacking, 'runner' | 'limits' | 'volatile'>,
): Promise<ImageRecord> {
  const recipe = readRecipe(recipeName)
  if (process.getuid?.() !== 0)
    throw new SandboxError('unsupported', 'Building an image needs root.', {
      hint: 'Use sudo, or build the Dockerfile and import the result: sandkasten image import docker-archive:/path',
    })
  const name = parseReference(options.name ?? recipe.name.toLowerCase()).name
  const folder = await layerDraft(draft)
  const tell = (step: string) => options.onProgress?.({ phase: 'build', step })
  const { facts, diffId } = await runProgram(
    {
      cmd: options.mmdebstrap ?? 'mmdebstrap',
      args: await argumentsFor(recipe, draft.folder),
      env: { TMPDIR: draft.folder },
      install: 'apt-get install mmdebstrap',
      onLine: (line) => /^I: /.test(line) && !line.includes(draft.folder) && tell(line.slice(3)),
      signal: options.signal,
    },
    (stdout) =>
      unpackStream(stdout as Readable, join(folder, 'fs'), {
        runner: options.runner,
        limits: options.limits,
        volatile: options.volatile ?? false,
        signal: options.signal,
      }),
  )
  await draft.need([diffId.slice('sha256:'.length)])
  await keepLayer(places, folder, diffId.slice('sha256:'.length), facts)
  const document: ConfigDocument = {
    created: new Date().toISOString(),
    diffIds: [diffId],
    env: Object.entries(recipe.env).map(([key, value]) => `${key}=${value}`),
    workdir: recipe.workdir,
    user: '',
  }
  const config = JSON.stringify({
    os: 'linux',
    architecture: thisPlatform,
    config: { Env: document.env, WorkingDir: recipe.workdir },
    rootfs: { type: 'layers', diff_ids: [diffId] },
  })
  const manifest = writeManifest(`sha256:${sha256(config)}`, [diffId])
  const digest = `sha256:${sha256(manifest)}`
  return addImage(places, draft, {
    name,
    source: `recipe:${recipe.name}`,
    digest,
    document,
    diffIds: [diffId],
    unpacking: options,
  })
}

async function argumentsFor(recipe: Recipe, scratch: string): Promise<string[]> {
  const { suite, list, sources } = aptSources()
  const files: string[] = []
  for (const [name, text] of Object.entries({ 'apt.list': list, 'apt.sources': sources })) {
    if (text === '') continue
    files.push(join(scratch, name))
    await writeFile(join(scratch, name), `${text}\n`, { mode: 0o600 })
  }
  return [
    '--mode=root',
    '--variant=minbase',
    '--format=tar',
    '--aptopt=APT::Install-Recommends "false"',
    // The result is synced once, as a layer, so dpkg need not sync each file.
    '--dpkgopt=force-unsafe-io',
    ...LEFT_OUT.map((path) => `--dpkgopt=path-exclude=${path}`),
    '--dpkgopt=path-include=/usr/share/locale/locale.alias',
    `--include=${recipe.packages.join(',')}`,
    // An image may be shared, so it must not contain this machine's name or its package servers.
    '--customize-hook=rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/auth.conf.d/*',
    '--customize-hook=rm -f "$1"/etc/resolv.conf "$1"/etc/hostname',
    suite,
    '-',
    ...files,
  ]
}
