import { existsSync, readdirSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { sha256 } from '../places.ts'
import { isLoopback, type Reference } from '../reference.ts'
import { runProgram } from '../run-program.ts'
import { broken, checkDigest, choose, type Manifest, parseManifest, thisPlatform } from './manifest.ts'
import { type ImageSource, openCopy } from './source.ts'

/**
 * Pulls from a registry with `skopeo`, which supports the many ways of authentication. A tag is resolved once. After
 * that, everything is requested by digest, and the digests are checked here too. The copy keeps the registry's
 * manifest, so the digest is the same everywhere.
 */
export interface PullOptions {
  /**
   * Credentials, as `skopeo login --authfile` writes them. Default: skopeo's own (`$REGISTRY_AUTH_FILE`,
   * `~/.docker/config.json`).
   */
  readonly authfile?: string
  readonly skopeo?: string
  readonly signal?: AbortSignal
  readonly onProgress?: (done: number, total: number) => void
}

export interface Remote {
  /** The digest of the manifest for this machine. */
  readonly digest: string
  /** The compressed size in bytes. */
  readonly bytes: number
  /** Downloads the image into a new folder. */
  fetch(folder: string): Promise<ImageSource>
}

export async function askRegistry(
  reference: Extract<Reference, { kind: 'registry' }>,
  options: PullOptions & { scratch: string },
): Promise<Remote> {
  const { name, host } = reference
  const repository = name.replace(/@.*$|:[^:/]*$/, '')
  const general = await generalOptions(options.scratch)
  const access = [
    ...(options.authfile === undefined ? [] : ['--authfile', options.authfile]),
    ...(host !== undefined && isLoopback(host) ? ['--tls-verify=false'] : []),
  ]
  const skopeo = (args: readonly string[]) =>
    runProgram({
      cmd: options.skopeo ?? 'skopeo',
      args: [...general, ...args],
      env: { TMPDIR: options.scratch },
      install: 'apt-get install skopeo',
      signal: options.signal,
    }).catch((error) => {
      throw withHint(error, name)
    })
  const inspect = (what: string) => skopeo(['inspect', '--raw', ...access, `docker://${what}`])

  let bytes = await inspect(name)
  if (reference.digest !== undefined) checkDigest(bytes, reference.digest, 'manifest')
  let digest = `sha256:${sha256(bytes)}`
  const document = parseManifest(bytes)
  if ('manifests' in document) {
    digest = choose(document.manifests).digest
    bytes = await inspect(`${repository}@${digest}`)
    checkDigest(bytes, digest, 'manifest')
  }
  const manifest = parseManifest(bytes) as Manifest
  if (!('layers' in manifest)) throw broken('a list of manifests contains another list')
  const total = manifest.layers.reduce((sum, { size }) => sum + size, 0)
  return {
    digest,
    bytes: total,
    async fetch(folder) {
      await mkdir(folder, { mode: 0o700 })
      const timer = setInterval(() => options.onProgress?.(Math.min(sizeOf(folder), total), total), 300)
      try {
        const source = access.map((option) => option.replace(/^--(authfile|tls-verify)/, '--src-$1'))
        await skopeo(['copy', '--quiet', ...source, `docker://${repository}@${digest}`, `dir:${folder}`])
      } finally {
        clearInterval(timer)
      }
      options.onProgress?.(total, total)
      const copy = openCopy(folder)
      if (copy.digest !== digest)
        throw broken(`the digest of its manifest is ${copy.digest}, but should be ${digest}`)
      return copy
    },
  }
}

async function generalOptions(scratch: string): Promise<string[]> {
  const platform = ['--override-os', 'linux', '--override-arch', thisPlatform, '--tmpdir', scratch]
  if (existsSync('/etc/containers/policy.json')) return platform
  // skopeo does nothing without a signature policy, and this machine may have none.
  const policy = join(scratch, 'policy.json')
  await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}', { mode: 0o600 })
  return ['--policy', policy, ...platform]
}

/** skopeo has one exit code for all failures, so only its output tells them apart. */
function withHint(error: unknown, name: string): unknown {
  if (!SandboxError.is(error, 'provider_error')) return error
  return new SandboxError('provider_error', `Cannot pull the image ${name}. ${error.message}`, {
    cause: error,
    hint: 'Check the name and the connection to the registry. For a private registry, use skopeo login or --authfile.',
    details: error.details,
  })
}

function sizeOf(folder: string): number {
  let bytes = 0
  for (const name of readdirSync(folder))
    bytes += statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0
  return bytes
}
