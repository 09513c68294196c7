import { type ImageRecord, imageStore, locateRunner } from '@sandkasten/engine'
import { enginePlace } from './engine-place.ts'
import { sizeText, timeText } from './format.ts'
import type { PlaceOptions } from './options.ts'
import { Progress } from './progress.ts'
import { endings } from './steer.ts'
import { table } from './table.ts'

type Store = ReturnType<typeof imageStore>
type Watching = { signal: AbortSignal; onProgress: Progress['show'] }

async function storeAt(options: PlaceOptions): Promise<Store> {
  const { folder } = await enginePlace(options)
  return imageStore({ root: folder })
}

export function build(recipe: string, options: PlaceOptions & { name?: string }): Promise<void> {
  return making(options, (store, progress) => store.build(recipe, { ...options, ...progress }))
}

export function pull(name: string, options: PlaceOptions & { authfile?: string }): Promise<void> {
  return making(options, (store, progress) => store.pull(name, { ...options, ...progress }))
}

export function importImage(path: string, options: PlaceOptions & { name?: string }): Promise<void> {
  return making(options, (store, progress) => store.import(path, { ...options, ...progress }))
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

export async function list({
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

export async function remove(names: string[], place: PlaceOptions): Promise<void> {
  const store = await storeAt(place)
  for (const name of names) {
    const { bytes, kept } = await store.remove(name)
    const still = kept ? '; shared layers stay' : ''
    console.log(`${name} is removed: ${sizeText(bytes)} free${still}.`)
  }
}

export async function prune({ all, ...place }: PlaceOptions & { all?: boolean }): Promise<void> {
  const { images, layers, bytes } = await (await storeAt(place)).prune({ unused: all ?? false })
  for (const name of images) console.log(`${name} is removed.`)
  console.log(`${layers} layers removed, ${sizeText(bytes)} freed.`)
}
