import { createReadStream, createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { SandboxError } from '../../errors.ts'
import { remoteState } from '../remote/history.ts'
import { isObjectId } from '../remote/manifest.ts'
import { remoteGit } from '../remote/tools.ts'
import { withWorkFolder } from '../remote/work.ts'
import type { Skipped } from '../types.ts'
import type { PullJob } from './job.ts'

/**
 * Fetches the commits that the sandbox added to the upload into the temporary repository, as a bundle: a file without
 * executable parts, whose objects are all checked. Undefined without new commits.
 */
export async function takeCommits(
  job: PullJob,
  head: string,
  skipped: Skipped[],
): Promise<{ commit: string; count: number } | undefined> {
  const { sandbox, root, manifest, tools, store, opts } = job
  const { signal } = opts
  const uploaded = manifest.repos.get('')
  if (!uploaded?.sent || !tools.has('git')) return undefined
  const theirs = await remoteState(sandbox, root, { signal })
  if (!theirs?.head || theirs.head === head) return undefined
  const known = await localIds(job, [head, ...Object.values(uploaded.refs)])
  if (known.includes(theirs.head)) {
    // The sandbox checked out a commit that exists locally and made none of its own.
    return { commit: theirs.head, count: 0 }
  }
  for (const [index, id] of known.entries()) await store.run(['update-ref', `refs/known/${index}`, id])
  const file = join(job.temp, 'commits.bundle')
  const refused = await withWorkFolder(sandbox, root, { signal }, async (work) => {
    const remote = `${work}/commits.bundle`
    const stdin = ['HEAD', ...known.map((id) => `^${id}`)].map((line) => `${line}\n`).join('')
    const made = await remoteGit(
      sandbox,
      root,
      ['bundle', 'create', '--quiet', remote, '--ignore-missing', '--stdin'],
      { stdin, signal },
    )
    if (made.exitCode !== 0) return `the sandbox’s git made no bundle: ${made.stderr.trim().slice(-300)}`
    await download(job, remote, file)
    return undefined
  })
  const fetched = refused ?? (await takeBundle(job, file, theirs.head))
  if (fetched !== undefined) {
    skipped.push({ path: '.git', reason: `the sandbox’s commits were not taken, its files were: ${fetched}` })
    return undefined
  }
  const count = Number(
    (await store.run(['rev-list', '--count', theirs.head, '--not', '--glob=refs/known/*'])).text,
  )
  return { commit: theirs.head, count }
}

/**
 * Not `git fetch`, which checks nothing in a bundle before git 2.46: `index-pack --strict` reads the pack and keeps
 * it only if every object passes.
 */
async function takeBundle({ store }: PullJob, file: string, head: string): Promise<string | undefined> {
  const start = await packStart(file)
  if (start === undefined) return 'it is not a bundle'
  try {
    await store.run(['index-pack', '--stdin', '--fix-thin', '--strict'], {
      stdin: createReadStream(file, { start }),
    })
    await store.run(['update-ref', 'refs/heads/theirs', head])
  } catch (error) {
    if (!SandboxError.is(error, 'provider_error')) throw error
    return error.message
  }
  return undefined
}

/** The end of the header, which is text up to an empty line. */
async function packStart(file: string): Promise<number | undefined> {
  const handle = await open(file, 'r')
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxHeaderBytes), 0, maxHeaderBytes, 0)
    const end = buffer.subarray(0, bytesRead).indexOf('\n\nPACK')
    return end === -1 ? undefined : end + 2
  } finally {
    await handle.close()
  }
}

const maxHeaderBytes = 4 * 1024 * 1024

async function download({ sandbox, limits, opts }: PullJob, remote: string, file: string): Promise<void> {
  let size = 0
  const limited = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of await sandbox.files.readStream(remote, { signal: opts.signal })) {
      size += chunk.byteLength
      if (size > limits.maxTotalBytes) {
        throw new SandboxError(
          'too_large',
          `The sandbox’s commits are larger than ${limits.maxTotalBytes} bytes.`,
          { hint: 'Raise maxTotalBytes.' },
        )
      }
      yield chunk
    }
  }
  await pipeline(
    Readable.from(limited(), { objectMode: false }),
    createWriteStream(file, { mode: 0o600, flags: 'wx' }),
  )
}

/** The ids that are local commits. The sandbox may have invented the others. */
async function localIds({ store }: PullJob, ids: readonly string[]): Promise<string[]> {
  const stdin = [...new Set(ids)]
    .filter(isObjectId)
    .map((id) => `${id}^{commit}\n`)
    .join('')
  const rows = (
    await store.run(['cat-file', '--batch-check=%(objectname) %(objecttype)'], { stdin })
  ).text.split('\n')
  return [...new Set(rows.flatMap((row) => /^([0-9a-f]+) commit$/.exec(row)?.[1] ?? []))]
}
