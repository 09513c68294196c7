import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { SandboxError } from '@sandkasten/sdk'
import type Docker from 'dockerode'
import type { Container } from 'dockerode'
import { groupOf, passwdOf } from '../../../images/host/etc.ts'
import { readText } from '../../../read-files.ts'
import { tarOf } from '../../../tar.ts'
import { COPIED_RUNNER } from '../config.ts'
import type { DaemonFacts } from '../daemon/daemon.ts'
import { statusOf } from '../daemon/errors.ts'
import type { Labels } from '../daemon/labels.ts'
import { dockerProfile } from '../seccomp.ts'

/** Copies our runner into a stopped container and replaces an existing file. */
export async function copyRunner(container: Container, runner: string): Promise<void> {
  const [, folder, file] = COPIED_RUNNER.split('/')
  const content = await readFile(runner)
  const archive = tarOf([
    { name: `${folder}/`, mode: 0o755, owner: { uid: 0, gid: 0 } },
    { name: `${folder}/${file}`, mode: 0o755, owner: { uid: 0, gid: 0 }, content },
  ])
  await container.putArchive(archive, { path: '/' })
}

/** Makes the working directory, which belongs to the sandbox's user, and a `/tmp` for all users. */
export async function makeFolders(container: Container, workdir: string, user: number): Promise<void> {
  const parts = workdir.split('/').filter(Boolean)
  const folders = parts.map((_, index) => {
    // `/home` is the system's, `/home/sandbox/project` the user's.
    const id = index === 0 && parts.length > 1 ? 0 : user
    return {
      name: `${parts.slice(0, index + 1).join('/')}/`,
      mode: 0o755,
      owner: { uid: id, gid: id },
    }
  })
  const tmp = { name: 'tmp/', mode: 0o1777, owner: { uid: 0, gid: 0 } }
  await container.putArchive(tarOf([tmp, ...folders.filter(({ name }) => name !== tmp.name)]), { path: '/' })
}

/** Writes this name of the sandbox's user to /etc/passwd and /etc/group. */
export async function nameAccount(container: Container, account: string): Promise<void> {
  const owner = { uid: 0, gid: 0 }
  const file = (name: string, text: string) => ({ name, mode: 0o644, owner, content: Buffer.from(text) })
  const files = [file('etc/passwd', passwdOf(account)), file('etc/group', groupOf(account))]
  await container.putArchive(tarOf(files), { path: '/' })
}

/**
 * Whether the daemon sees our disk. The daemon is asked to mount a new folder with an unguessable name below the run
 * folder. That folder is in this machine's memory, so a daemon in a virtual machine that shares our home folder does
 * not see it. The container for this test is never started.
 */
export async function probeShared(
  docker: Docker,
  image: string,
  runFolder: string,
  labels: Labels,
): Promise<boolean> {
  mkdirSync(runFolder, { recursive: true, mode: 0o755 })
  // Regardless of the umask: with remapped users the runtime is another user and must pass through the folder.
  chmodSync(runFolder, 0o755)
  const name = `probe-${randomBytes(12).toString('hex')}`
  const folder = join(runFolder, name)
  mkdirSync(folder, { mode: 0o700 })
  let container: Container | undefined
  try {
    container = await docker.createContainer({
      name: `sandkasten-${name}`,
      Image: image,
      Labels: { ...labels },
      Entrypoint: ['/none'],
      HostConfig: {
        NetworkMode: 'none',
        Mounts: [{ Type: 'bind', Source: folder, Target: '/probe', ReadOnly: true }],
      },
    })
    writeFileSync(join(folder, 'seen'), '')
    const answer: Readable = await container.infoArchive({ path: '/probe/seen' })
    // The connection stays open until the empty body is read.
    answer.resume()
    return true
  } catch (cause) {
    // The daemon refused the mount or did not find the folder. Any other error says nothing about disks.
    const refused = container === undefined ? [400, 500] : [404]
    if (refused.includes(statusOf(cause) ?? 0)) return false
    throw cause
  } finally {
    await container?.remove({ force: true, v: true })
    rmTree(folder)
  }
}

/** The value of `seccomp=`. */
export async function seccompFor(
  facts: DaemonFacts,
  options: { seccompProfile?: string; stateFolder: string; shared: boolean },
): Promise<string> {
  if (options.seccompProfile !== undefined) return options.seccompProfile
  if (!facts.seccomp || facts.architecture === undefined)
    throw new SandboxError('unsupported', 'this daemon cannot filter system calls', {
      hint: 'Use a daemon on x86-64 or arm64 Linux with seccomp (docker info, “Security Options”).',
    })
  const profile = JSON.stringify(dockerProfile(facts.architecture))
  if (facts.kind === 'docker') return profile
  if (!options.shared)
    throw new SandboxError('unsupported', 'Podman needs the seccomp profile as a file on its own machine', {
      hint: 'Copy our profile there (see docs/docker.md) and set docker.seccompProfile to its path.',
    })
  const file = join(options.stateFolder, `seccomp-${facts.architecture}.json`)
  if (readText(file) !== profile) {
    const draft = `${file}.${randomBytes(6).toString('hex')}`
    writeFileSync(draft, profile, { mode: 0o644 })
    renameSync(draft, file)
  }
  return file
}

/** A folder of ours with at most one file. */
function rmTree(folder: string): void {
  rmSync(join(folder, 'seen'), { force: true })
  rmdirSync(folder)
}
