import { hostPrograms } from '@sandkasten/sdk/internal'
import { hasRuntime, noRuntime, type Programs, runtimeNames } from '@sandkasten/sdk/provider'
import { type HiddenPath, type HostImageOptions, hiddenInHost } from '../images/host/hidden.ts'

/** An image, and the programs in it. */
export interface ProgramImage {
  readonly image: string
  readonly programs: Programs
}

export interface RuntimeImagesOptions {
  /** Images that the user has named for runtimes. They are used without a look at their programs. */
  readonly named: Readonly<Record<string, string>>
  readonly defaultImage: string
  readonly images: () => Promise<readonly ProgramImage[]>
}

/** Finds images by their programs: for `create({ runtime: 'node24' })`. */
export class RuntimeImages {
  readonly #options: RuntimeImagesOptions

  constructor(options: RuntimeImagesOptions) {
    this.#options = options
  }

  /** The image for a runtime: the named one, the default image if it fits, or another. With `among`, only these. */
  async imageFor(runtime: string, among?: readonly string[]): Promise<string> {
    const { named, defaultImage } = this.#options
    const allowed = (image: string) => among === undefined || among.includes(image)
    if (Object.hasOwn(named, runtime) && allowed(named[runtime]!)) return named[runtime]!
    const images = (await this.#options.images()).filter(({ image }) => allowed(image))
    const fitting = images.filter(({ programs }) => hasRuntime(programs, runtime)).map(({ image }) => image)
    if (fitting.includes(defaultImage)) return defaultImage
    if (fitting.length > 0) return fitting.sort(byPreference)[0]!
    const names = Object.keys(named).filter((name) => allowed(named[name]!))
    const found = images.flatMap(({ programs }) => runtimeNames(programs))
    const where = images
      .filter(({ programs }) => runtimeNames(programs).length > 0)
      .map(({ image, programs }) => `${image} has ${runtimeNames(programs).join(' and ')}`)
    throw noRuntime('engine', runtime, [...new Set([...names, ...found])].sort(), hintOf(where))
  }
}

/** Images of the store before the image `host`, then by length: `node:24` before `node:24-bookworm-slim`. */
function byPreference(a: string, b: string): number {
  return Number(a === 'host') - Number(b === 'host') || a.length - b.length || (a < b ? -1 : 1)
}

function hintOf(where: readonly string[]): string {
  const list = where.length === 0 ? '' : `The image ${where.slice(0, 20).join('; ')}. `
  return `${list}To add one: sandkasten image pull node:24. Or name an image with the option runtimes.`
}

/** The programs of this machine that are in the image `host`. */
export async function hostImagePrograms(options: HostImageOptions): Promise<ProgramImage> {
  const hidden = hiddenInHost(options)
  const isVisible = (file: string) =>
    /^\/(usr|bin|sbin|lib\w*)\//.test(file) && !hidden.some((place) => covers(place, file))
  return { image: 'host', programs: await hostPrograms({ path: searchPath, isVisible }) }
}

/** The search path of sandboxes (`isolators/environment.ts`). */
const searchPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

function covers({ path, isFolder }: HiddenPath, file: string): boolean {
  return file === path || (isFolder && file.startsWith(`${path}/`))
}
