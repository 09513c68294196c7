/**
 * The first of three stages: reads everything about the `*.sandbox.ts` files from disk, so that planning is a pure
 * function of the result.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { posixRelative } from '../paths.ts'
import { CloudflareSyncError, type Place, type Problem } from '../problem.ts'
import { readClassChain } from './class-chain.ts'
import { isTagOf, sandboxBases, sandboxTag } from './dockerfile.ts'
import { fail, indexModule, placeIn } from './module.ts'
import { sdkVersion } from './sdk-version.ts'
import { type Located, readStatics, type Statics } from './statics.ts'
import { findSandboxFiles, SUFFIX } from './walk.ts'

export interface SandboxSource {
  path: string
  file: string
  /** `shell` for `shell.sandbox.ts`. */
  baseName: string
  className: string
  place: Place
  statics: Statics
  /** Absolute paths of existing Dockerfiles: the one named by `static image`, and the sibling. */
  imageFiles: string[]
  siblingDockerfile?: string
  /** Undefined if the SDK is not installed for this file. */
  sdkVersion?: string
  /** Every file that the result depends on, for watchers. */
  readFrom: string[]
}

export interface Discovery {
  sandboxes: SandboxSource[]
  problems: Problem[]
}

export interface DiscoverOptions {
  root: string
  dir?: string
  /** The folder of the wrangler config: wrangler resolves Dockerfile paths from there. */
  configDir?: string
}

/** Reads every sandbox file. An unreadable file becomes an error in `problems`; the others are still read. */
export function discover(options: DiscoverOptions): Discovery {
  const root = resolve(options.root)
  const folder = resolve(root, options.dir ?? 'src/server')
  const { files, problems } = findSandboxFiles(folder, root)
  const sandboxes: SandboxSource[] = []
  for (const path of files) {
    try {
      const text = readFileSync(path, 'utf8')
      sandboxes.push(readSandbox(path, text, root, resolve(options.configDir ?? root), problems))
    } catch (error) {
      if (!(error instanceof CloudflareSyncError)) throw error
      problems.push(...error.problems)
    }
  }
  return { sandboxes, problems }
}

/** Reads one file, whose text need not be on disk yet. Warnings and errors of its static fields go to `problems`. */
export function readSandbox(
  path: string,
  text: string,
  root: string,
  configDir: string,
  problems: Problem[],
): SandboxSource {
  const module = indexModule(path, posixRelative(root, path), text)
  const { links, sdkImporter } = readClassChain(module, root)
  const link = links[0]!
  const start = link.node.id?.start ?? link.node.start
  if (!link.name) {
    const fix = 'give it a name, which Cloudflare uses as its identity: `export default class ShellSandbox …`'
    fail(link.module, start, 'anonymous-class', 'the class has no name', fix)
  }
  if (link.node.abstract) {
    fail(
      link.module,
      start,
      'abstract-class',
      `class ${link.name} is abstract: Cloudflare cannot instantiate it`,
      'drop `abstract`',
    )
  }
  const tuning = readStatics(links)
  problems.push(...tuning.problems)
  // Not basename(path, SUFFIX): that keeps the suffix of a file named only by the suffix.
  const baseName = basename(path).slice(0, -SUFFIX.length)
  const sibling = join(dirname(path), `${baseName}.Dockerfile`)
  const source: SandboxSource = {
    path,
    file: module.file,
    baseName,
    className: link.name,
    place: placeIn(link.module, start),
    statics: tuning.statics,
    imageFiles: tuning.statics.image ? dockerfilesOf(tuning.statics.image, configDir) : [],
    readFrom: [...new Set([path, ...links.map((one) => one.module.path), sdkImporter.path])],
  }
  if (isFile(sibling)) source.siblingDockerfile = sibling
  const version = sdkVersion(sdkImporter.path)
  if (version) source.sdkVersion = version
  problems.push(...drift(source, root))
  return source
}

/** A path in `static image` is relative to its file or, as in wrangler, to the config. */
function dockerfilesOf(image: Located<string>, configDir: string): string[] {
  const candidates = [resolve(dirname(image.path), image.value), resolve(configDir, image.value)]
  return [...new Set(candidates)].filter(isFile)
}

/** The image and the SDK share a protocol, so different versions get a warning. */
function drift(
  { sdkVersion, statics, imageFiles, siblingDockerfile }: SandboxSource,
  root: string,
): Problem[] {
  if (!sdkVersion) return []
  const seen: { tag: string; place: Place }[] = []
  const tag = statics.image && sandboxTag(statics.image.value)
  if (tag) seen.push({ tag, place: statics.image!.place })
  const used = imageFiles[0] ?? (statics.image ? undefined : siblingDockerfile)
  for (const base of used ? sandboxBases(used) : []) {
    seen.push({ tag: base.tag, place: { file: posixRelative(root, used!), line: base.line, column: 1 } })
  }
  return seen
    .filter(({ tag }) => !isTagOf(tag, sdkVersion))
    .map(({ tag, place }) => ({
      severity: 'warning',
      code: 'image-drift',
      message: `the image is cloudflare/sandbox:${tag}, the installed SDK is ${sdkVersion}`,
      place,
      fix: `use cloudflare/sandbox:${tag.replace(/^[^-]*/, sdkVersion)}, or install @cloudflare/sandbox@${tag.replace(/-.*/, '')}`,
    }))
}

function isFile(path: string): boolean {
  return existsSync(path) && statSync(path).isFile()
}
