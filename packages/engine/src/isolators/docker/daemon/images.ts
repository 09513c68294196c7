import { spawn } from 'node:child_process'
import { basename } from 'node:path'
import type { Readable } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import type { Programs } from '@sandkasten/sdk/provider'
import type Docker from 'dockerode'
import type { HostImageOptions } from '../../../images/host/hidden.ts'
import { type HostImage, hostImage } from '../../../images/host/host.ts'
import { programsOfEnv } from '../../../images/programs.ts'
import { type Image, storedImage } from '../../isolator.ts'
import type { Daemon } from './daemon.ts'
import { statusOf } from './errors.ts'
import { filterFor, isOurs, LABEL, type Labels, labelsFor } from './labels.ts'

export interface ResolvedImage {
  /** The daemon's id or name of the image. */
  readonly name: string
  readonly binds: HostImage['binds']
  /** Paths that the sandbox does not see. */
  readonly hidden: HostImage['hidden']
  /** The image contains the working directory, with its owner. */
  readonly prepared: boolean
}

/**
 * Finds or creates the daemon's image for a sandbox. Pulls only if the options allow it.
 *
 * The image `host` is the generated skeleton (`../../../images/host/host.ts`), imported once, with this machine's
 * `/usr` mounted over it. So it needs a daemon that sees this machine's disk.
 *
 * Our names begin with `localhost/`: they cannot be mistaken for names of a registry, and Podman finds them without
 * guessing.
 */
export class Images {
  private readonly daemon: Daemon
  private readonly owner: string
  private readonly folder: string
  private readonly pull: boolean
  private host?: { at: number; image: HostImage; name: string }

  private readonly hostOptions: HostImageOptions

  constructor(options: {
    daemon: Daemon
    owner: string
    folder: string
    pull: boolean
    hostImage?: HostImageOptions
  }) {
    this.hostOptions = options.hostImage ?? {}
    this.daemon = options.daemon
    this.owner = options.owner
    this.folder = options.folder
    this.pull = options.pull
  }

  async resolve(image: Image): Promise<ResolvedImage> {
    if (image === 'host') return this.resolveHost()
    if ('reference' in image) return this.resolveReference(image.reference)
    if ('snapshot' in image) {
      const { binds, hidden } = image.of === 'host' ? this.hostFolders().image : { binds: [], hidden: [] }
      return { name: this.snapshotName(image.snapshot), binds, hidden, prepared: true }
    }
    const stored = storedImage(image)
    if (stored)
      throw new SandboxError(
        'unsupported',
        `the image ${stored.name} is in the engine’s store, not in the daemon’s`,
        {
          hint: 'Add the image to the daemon with docker pull or docker load, and use its name there.',
        },
      )
    throw new SandboxError('unsupported', 'the isolator `docker` cannot use a folder as an image', {
      hint: 'Import the folder (`tar -C folder -c . | docker import - name`) and use that name as the image.',
    })
  }

  async has(reference: string): Promise<boolean> {
    const docker = await this.daemon.docker()
    try {
      await this.daemon.call('Looking for the image', () => docker.getImage(reference).inspect())
      return true
    } catch (error) {
      if (SandboxError.is(error, 'not_found')) return false
      throw error
    }
  }

  /** Images with a tag, and the versions that their environment states. */
  async programs(): Promise<Array<{ image: string; programs: Programs }>> {
    return this.daemon.call('Listing images', async (docker) => {
      const tags = (await docker.listImages()).flatMap(({ RepoTags }) => RepoTags ?? [])
      const foreign = tags.filter((tag) => !tag.includes('localhost/sandkasten-') && tag !== '<none>:<none>')
      const found = foreign.slice(0, mostInspected).map(async (image) => {
        const { Config } = await docker.getImage(image).inspect()
        return { image, programs: programsOfEnv(environmentFrom(Config?.Env ?? [])) }
      })
      return Promise.all(found)
    })
  }

  snapshotName(snapshotId: string): string {
    return `localhost/sandkasten-snapshot:${this.owner}-${snapshotId}`
  }

  private async resolveReference(reference: string): Promise<ResolvedImage> {
    const found = { name: reference, binds: [], hidden: [], prepared: false }
    const docker = await this.daemon.docker()
    const look = () =>
      this.daemon.call('Looking for the image', () => docker.getImage(reference).inspect(), {
        image: reference,
      })
    if (!this.pull) {
      await look()
      return found
    }
    try {
      await look()
    } catch (error) {
      if (!SandboxError.is(error, 'not_found')) throw error
      await this.daemon.call('Pulling the image', async () => finished(await docker.pull(reference)), {
        image: reference,
      })
    }
    return found
  }

  private async resolveHost(): Promise<ResolvedImage> {
    const { image, name } = this.hostFolders()
    const docker = await this.daemon.docker()
    if (!(await this.isHere(docker, name))) {
      await this.daemon.call('Importing the image `host`', () => this.importFolder(docker, image.layer, name))
      await this.removeOlder(docker, name)
    }
    return { name, binds: image.binds, hidden: image.hidden, prepared: true }
  }

  /** A check for changes of the machine takes a hundred system calls, so it runs at most once a second. */
  private hostFolders(): { image: HostImage; name: string } {
    if (this.host && performance.now() - this.host.at < 1000) return this.host
    if (process.platform !== 'linux' || process.getuid?.() !== 0)
      throw new SandboxError(
        'unsupported',
        'the image `host` uses this machine’s /usr and needs root on Linux',
        {
          hint: 'Use an image of the daemon: create({ image: "debian:12" }), or defaults.image.',
        },
      )
    const image = hostImage(this.folder, '/', this.hostOptions)
    const name = `localhost/sandkasten-host:${this.owner}-${basename(image.layer).replace('host-', '')}`
    this.host = { at: performance.now(), image, name }
    return this.host
  }

  private async isHere(docker: Docker, name: string): Promise<boolean> {
    try {
      const { Config } = await docker.getImage(name).inspect()
      return isOurs(Config.Labels, this.owner, 'host-image')
    } catch (cause) {
      if (statusOf(cause) === 404) return false
      throw cause
    }
  }

  private async importFolder(docker: Docker, folder: string, name: string): Promise<void> {
    const tar = spawn('tar', ['-C', folder, '--numeric-owner', '-c', '.'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const ended = new Promise<number | null>((resolve, reject) => {
      tar.once('error', reject)
      tar.once('close', resolve)
    })
    // Podman accepts only a tag within the name, and one line per label.
    const options = { repo: name, changes: labelLines(labelsFor(this.owner, 'host-image')) }
    const answer = docker.importImage(tar.stdout, options)
    const [code] = await Promise.all([ended, answer.then(finished)])
    if (code !== 0) throw new SandboxError('internal', `tar exited with code ${code}`)
  }

  /** Removes outdated skeletons. The daemon refuses to remove one that a container uses. */
  private async removeOlder(docker: Docker, name: string): Promise<void> {
    const all = await docker.listImages({ filters: filterFor(this.owner, 'host-image') })
    for (const { Id, RepoTags } of all) {
      if (RepoTags?.some((tag) => tag.endsWith(name))) continue
      await docker
        .getImage(Id)
        .remove()
        .catch(() => {})
    }
  }

  // Snapshots

  /** Commits the container's disk as an image. A running container is paused during the commit. */
  async commit(
    container: Docker.Container,
    sandboxId: string,
    snapshotId: string,
  ): Promise<number | undefined> {
    const [repo, tag] = this.snapshotName(snapshotId).split(':')
    const labels = labelsFor(this.owner, 'snapshot', {
      [LABEL.snapshot]: snapshotId,
      [LABEL.sandbox]: sandboxId,
    })
    const changes = labelLines(labels)
    return this.daemon.call(
      'Making the snapshot',
      async (docker) => {
        await container.commit({ repo, tag, pause: true, changes })
        const [top] = (await docker.getImage(this.snapshotName(snapshotId)).history()) as { Size?: number }[]
        return top?.Size
      },
      { sandboxId },
    )
  }

  async removeSnapshot(snapshotId: string): Promise<'removed' | 'absent' | 'in-use'> {
    return this.daemon.call('Removing the snapshot', async (docker) => {
      const image = docker.getImage(this.snapshotName(snapshotId))
      try {
        const { Config } = await image.inspect()
        if (!isOurs(Config.Labels, this.owner, 'snapshot')) return 'absent'
        await image.remove()
        return 'removed'
      } catch (cause) {
        if (statusOf(cause) === 404) return 'absent'
        if (statusOf(cause) === 409) return 'in-use'
        throw cause
      }
    })
  }
}

/** Bounds the requests of one call. */
const mostInspected = 100

const environmentFrom = (lines: readonly string[]) =>
  Object.fromEntries(lines.map((line) => [line.split('=', 1)[0]!, line.slice(line.indexOf('=') + 1)]))

const labelLines = (labels: Labels) => Object.entries(labels).map(([name, value]) => `LABEL ${name}=${value}`)

/** The daemon answers before it pulls. The last line of the stream has the result. */
async function finished(answer: Readable | NodeJS.ReadableStream): Promise<void> {
  let text = ''
  for await (const chunk of answer) text += String(chunk)
  for (const line of text.split('\n').filter(Boolean)) {
    const { error } = JSON.parse(line) as { error?: string }
    if (error) throw Object.assign(new Error(error), { statusCode: 500 })
  }
}
