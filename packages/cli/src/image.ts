import { type ImageRecord, imageStore, locateRunner, recipeNames } from '@sandkasten/engine'
import type { Command } from 'commander'
import { table } from './daemon/table.ts'
import { enginePlace, type PlaceOptions, withPlaceOptions } from './engine-place.ts'
import { sizeText, timeText } from './format.ts'
import { Progress } from './progress.ts'
import { endings } from './steer.ts'

export function addImageCommands(program: Command): void {
  const image = program
    .command('image')
    .description('Manage images of sandboxes: build, pull, import, list, remove, prune.')
  withPlaceOptions(image.command('build'))
    .description(`Build an image from a recipe: ${recipeNames().join(', ')}, or a folder with a recipe.json.`)
    .argument('<recipe>')
    .option('--name <name>', 'name of the image; default: the recipe’s name')
    .action((recipe: string, options: PlaceOptions & { name?: string }) =>
      making(options, (store, progress) => store.build(recipe, { ...options, ...progress })),
    )
  withPlaceOptions(image.command('pull'))
    .description('Pull an image from a registry, with skopeo.')
    .argument('<image>', 'such as python:3.12, registry.example/tool, name@sha256:…')
    .option('--authfile <file>', 'credentials, as `skopeo login --authfile` writes them')
    .action((name: string, options: PlaceOptions & { authfile?: string }) =>
      making(options, (store, progress) => store.pull(name, { ...options, ...progress })),
    )
  withPlaceOptions(image.command('import'))
    .description(
      'Import an image from disk: an OCI layout (folder or tar archive), or an archive of docker save.',
    )
    .argument('<path>', 'such as oci:/path, docker-archive:/path, ./archive.tar')
    .option('--name <name>', 'name of the image; default: the name in the archive')
    .action((path: string, options: PlaceOptions & { name?: string }) =>
      making(options, (store, progress) => store.import(path, { ...options, ...progress })),
    )
  withPlaceOptions(image.command('list'))
    .alias('ls')
    .description('List images.')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
    .action(list)
  withPlaceOptions(image.command('remove'))
    .alias('rm')
    .description('Remove images. Existing sandboxes and snapshots keep the layers that they use.')
    .argument('<image...>')
    .action(remove)
  withPlaceOptions(image.command('prune'))
    .description('Remove layers that no image, sandbox or snapshot uses.')
    .option('--all', 'also remove images that no sandbox or snapshot uses')
    .action(prune)
}

type Store = ReturnType<typeof imageStore>
type Watching = { signal: AbortSignal; onProgress: Progress['show'] }

async function storeAt(options: PlaceOptions): Promise<Store> {
  const { folder } = await enginePlace(options)
  return imageStore(folder === undefined ? {} : { root: folder })
}

async function making(
  place: PlaceOptions,
  work: (store: Store, watching: Watching) => Promise<ImageRecord & { changed?: boolean }>,
): Promise<void> {
  await locateRunner({ onBuild: () => console.error('sandkasten: building the runner, once…') })
  const store = await storeAt(place)
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  for (const signal of endings) process.on(signal, leave)
  const progress = new Progress(process.stderr)
  try {
    const made = await work(store, {
      signal: leaving.signal,
      onProgress: (event) => progress.show(event),
    })
    progress.end()
    console.log(
      `${made.name}  ${made.digest}  ${sizeText(made.size)}${made.changed === false ? '  (unchanged)' : ''}`,
    )
  } finally {
    progress.end()
    for (const signal of endings) process.off(signal, leave)
  }
}

async function list({
  json,
  iso,
  ...place
}: PlaceOptions & { json?: boolean; iso?: boolean }): Promise<void> {
  const images = (await storeAt(place)).list()
  if (json) {
    const shown = images.map(({ version: _, addedAt, ...image }) => ({
      ...image,
      addedAt: new Date(addedAt).toISOString(),
    }))
    console.log(JSON.stringify(shown, null, 2))
    return
  }
  const rows = images.map(({ name, digest, size, addedAt }) => [
    name,
    digest.slice(0, 'sha256:'.length + 12),
    sizeText(size),
    timeText(new Date(addedAt).toISOString(), { iso }),
  ])
  if (rows.length === 0) console.error('No images yet. Try: sandkasten image build base')
  else
    console.log(
      table(
        [{ title: 'NAME', min: 12 }, { title: 'DIGEST', drop: 2 }, 'SIZE', { title: 'ADDED', drop: 1 }],
        rows,
      ),
    )
}

async function remove(names: string[], place: PlaceOptions): Promise<void> {
  const store = await storeAt(place)
  for (const name of names) {
    const { bytes, kept } = await store.remove(name)
    const still = kept ? '; shared layers stay' : ''
    console.log(`${name} is removed: ${sizeText(bytes)} free${still}.`)
  }
}

async function prune({ all, ...place }: PlaceOptions & { all?: boolean }): Promise<void> {
  const { images, layers, bytes } = await (await storeAt(place)).prune({ unused: all ?? false })
  for (const name of images) console.log(`${name} is removed.`)
  console.log(`${layers} layers removed, ${sizeText(bytes)} freed.`)
}
