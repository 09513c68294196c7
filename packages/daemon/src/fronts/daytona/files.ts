import type { IncomingMessage } from 'node:http'
import { type FileStat, SandboxError } from '@sandkasten/sdk'
import { bodyChunks } from '../../http/request-body.ts'
import { sendStream } from '../../http/send-stream.ts'
import type { Used } from '../../sessions/index.ts'
import { eachPart } from '../shared/multipart.ts'
import { type Owners, ownersIn } from '../shared/owners.ts'
import { needed } from '../shared/request.ts'
import { type Call, type Entry, found, optional, using } from './entry.ts'

const streamIdleMs = 60_000

export function fileRoutes(entry: Entry): void {
  const at = '/toolbox/:id/files'

  entry.add('GET', at, 'read', async (call) => {
    const folder = optional(call, 'path') ?? '.'
    const depth = Number(optional(call, 'depth') ?? 1)
    if (!Number.isInteger(depth) || depth < 1)
      throw new SandboxError('invalid_argument', 'depth must be a whole number of at least 1')
    const { largeCalls } = call.place.services.sessions
    const list = async ({ sandbox: { files } }: Used) => {
      const entries = await files.list(folder, { recursive: depth > 1, signal: call.signal })
      const owners = await ownersIn(files, call.signal)
      return entries
        .filter(({ path }) => path.split('/').length <= depth)
        .map((entry) => ({ ...fileView(entry.name, entry, owners), path: joined(folder, entry.path) }))
    }
    return largeCalls.run(call.caller.projectId, call.signal, () => using(call, list))
  })

  entry.add('GET', `${at}/info`, 'read', async (call) => {
    const path = needed(call, 'path')
    return using(call, async ({ sandbox: { files } }) => ({
      ...fileView(
        path.split('/').findLast((part) => part !== '') ?? '/',
        await files.stat(path),
        await ownersIn(files),
      ),
      path,
    }))
  })

  entry.add(
    'POST',
    `${at}/folder`,
    'exec',
    async (call) => {
      const path = needed(call, 'path')
      const mode = modeOf(optional(call, 'mode'))
      await using(call, ({ sandbox: { files } }) => files.mkdir(path, { recursive: true, mode }))
    },
    { status: 201 },
  )

  entry.add(
    'DELETE',
    at,
    'exec',
    async (call) => {
      const path = needed(call, 'path')
      const recursive = optional(call, 'recursive') === 'true'
      await using(call, ({ sandbox: { files } }) => files.rm(path, { recursive }))
    },
    { status: 204 },
  )

  entry.add('POST', `${at}/move`, 'exec', async (call) => {
    const [source, destination] = [needed(call, 'source'), needed(call, 'destination')]
    await using(call, ({ sandbox: { files } }) => files.rename(source, destination))
  })

  entry.add('POST', `${at}/permissions`, 'exec', async (call) => {
    const path = needed(call, 'path')
    const mode = modeOf(optional(call, 'mode'))
    const owner = [optional(call, 'owner') ?? '', optional(call, 'group') ?? ''].join(':')
    await using(call, async ({ sandbox }) => {
      if (mode !== undefined) await sandbox.files.chmod(path, mode)
      if (owner !== ':') await changeOwner(sandbox, owner, path)
    })
  })

  entry.add('GET', `${at}/download`, 'read', download, { signed: true })
  for (const name of ['upload-v2', 'upload'])
    entry.add('POST', `${at}/${name}`, 'exec', upload, { streamed: true, signed: true })

  entry.add('GET', '/toolbox/:id/user-home-dir', 'read', async (call) => ({
    dir: await using(call, ({ sandbox }) => printed(sandbox, 'printf %s "$HOME"')),
  }))
  entry.add('GET', '/toolbox/:id/work-dir', 'read', async (call) => ({
    dir: await using(call, async ({ sandbox }) => sandbox.workdir),
  }))
}

async function download(call: Call): Promise<void> {
  const path = needed(call, 'path')
  const { sessions } = call.place.services
  const used = await sessions.use.take(call.caller, (await found(call)).id, { wake: false })
  try {
    const { size } = await used.sandbox.files.stat(path)
    const stream = await used.sandbox.files.readStream(path, { signal: call.signal })
    call.reply.header('content-type', 'application/octet-stream')
    await sendStream(call.reply, stream, size > 0 ? size : undefined)
  } finally {
    used.release()
    sessions.touch(used.session.id)
  }
}

/** Writes the body, or the first file of a form, as a stream. */
async function upload(call: Call): Promise<void> {
  const path = needed(call, 'path')
  const body = call.body as IncomingMessage
  const { signal } = call
  await using(call, async ({ sandbox: { files } }) => {
    if (!/^multipart\/form-data/i.test(call.request.headers['content-type'] ?? ''))
      return files.writeFile(path, bodyChunks(body, streamIdleMs), { signal })
    let written = false
    const file = async (_: string, content: AsyncIterable<Uint8Array>) => {
      if (!written) await files.writeFile(path, content, { signal })
      written = true
    }
    await eachPart(body, { file }, { idleMs: streamIdleMs, fieldBytes: 8192, files: 10 })
    if (!written) throw new SandboxError('invalid_argument', 'The form has no file.')
  })
}

function fileView(name: string, stat: FileStat, owners: Owners) {
  const mode = stat.mode ?? 0
  const modified = new Date(stat.mtimeMs ?? 0).toISOString()
  return {
    name,
    size: stat.size,
    isDir: stat.type === 'directory',
    mode: `${letters[stat.type]}${rights(mode)}`,
    permissions: `0${(mode & 0o777).toString(8).padStart(3, '0')}`,
    modTime: modified,
    modifiedAt: modified,
    owner: owners.ownerOf(stat),
    group: owners.groupOf(stat),
  }
}

const letters = { file: '-', directory: 'd', symlink: 'L', other: '?' } as const

function rights(mode: number): string {
  return Array.from('rwxrwxrwx', (letter, bit) => (mode & (1 << (8 - bit)) ? letter : '-')).join('')
}

function modeOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^[0-7]{1,4}$/.test(text)) return Number.parseInt(text, 8)
  throw new SandboxError('invalid_argument', `mode ${text} is not octal, such as 755`)
}

async function changeOwner(sandbox: Used['sandbox'], owner: string, path: string): Promise<void> {
  const { exitCode, stderr } = await sandbox.runCommand({ cmd: 'chown', args: ['--', owner, path] })
  if (exitCode !== 0) throw new SandboxError('invalid_argument', stderr.trim().slice(-300))
}

export async function printed(sandbox: Used['sandbox'], script: string): Promise<string> {
  return (await sandbox.runCommand({ cmd: '/bin/sh', args: ['-c', script] })).stdout
}

function joined(folder: string, path: string): string {
  return folder.endsWith('/') ? `${folder}${path}` : `${folder}/${path}`
}
