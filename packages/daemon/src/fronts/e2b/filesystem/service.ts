import path from 'node:path'
import { type FileChange, SandboxError } from '@sandkasten/sdk'
import { endedBy } from '../../../http/event-streams.ts'
import type { Used } from '../../../sessions/index.ts'
import type { FrontPlace } from '../../front.ts'
import { ownersIn } from '../../shared/owners.ts'
import { type Call, type ConnectService, type Message, text, within } from '../envd/connect.ts'
import { sandboxGone } from '../refusal.ts'
import { absolute, entryOf } from './file-entries.ts'
import { FileMetadata, keepMetadata } from './file-metadata.ts'
import { Watchers } from './watchers.ts'

type Files = Used['sandbox']['files']

/** `filesystem.Filesystem`. */
export class Filesystem {
  readonly #place: FrontPlace
  readonly #watchers = new Watchers()

  constructor(place: FrontPlace) {
    this.#place = place
  }

  register(service: ConnectService): void {
    const at = (method: string) => `/filesystem.Filesystem/${method}`
    service.unary(at('Stat'), 'read', (call) => this.#stat(call))
    service.unary(at('ListDir'), 'read', (call) => this.#list(call))
    service.unary(at('MakeDir'), 'exec', (call) => this.#make(call))
    service.unary(at('Move'), 'exec', (call) => this.#move(call))
    service.unary(at('Remove'), 'exec', (call) => this.#remove(call))
    service.stream(at('WatchDir'), 'read', { keepalive: {} }, (call) => this.#watch(call))
    service.unary(at('CreateWatcher'), 'read', (call) => this.#createWatcher(call))
    service.unary(at('GetWatcherEvents'), 'read', async ({ session, message }) => ({
      events: this.#watchers.take(session.id, watcherId(message)),
    }))
    service.unary(at('RemoveWatcher'), 'read', async ({ session, message }) => {
      this.#watchers.end(session.id, watcherId(message))
      return {}
    })
  }

  #stat(call: Call): Promise<object> {
    const file = this.#path(call, 'path')
    return this.#use(call, async (files) => ({ entry: await this.#entry(call, files, file) }))
  }

  #list(call: Call): Promise<object> {
    const folder = this.#path(call, 'path')
    const depth = Math.max(1, Number(call.message.depth ?? 1) || 1)
    const list = async (files: Files) => {
      const entries = await files.list(folder, { recursive: depth > 1 })
      const metadata = await FileMetadata.load(this.#place, call.session)
      const owners = await ownersIn(files)
      const shown = entries.filter((entry) => entry.path.split('/').length <= depth)
      return {
        entries: await Promise.all(
          shown.map((entry) => entryOf(files, path.posix.join(folder, entry.path), entry, metadata, owners)),
        ),
      }
    }
    const { largeCalls } = this.#place.services.sessions
    return largeCalls.run(call.caller.projectId, undefined, () => this.#use(call, list))
  }

  #make(call: Call): Promise<object> {
    const folder = this.#path(call, 'path')
    return this.#use(call, async (files) => {
      if (await files.exists(folder)) {
        const { type } = await files.stat(folder)
        if (type === 'directory')
          throw new SandboxError('file_exists', `The folder ${folder} already exists.`)
        throw new SandboxError('not_a_directory', `${folder} already exists and is not a folder.`)
      }
      await files.mkdir(folder, { recursive: true })
      return { entry: await this.#entry(call, files, folder) }
    })
  }

  #move(call: Call): Promise<object> {
    const [from, to] = [this.#path(call, 'source'), this.#path(call, 'destination')]
    return this.#use(call, async (files) => {
      await files.lstat(from)
      await files.mkdir(path.posix.dirname(to), { recursive: true })
      await files.rename(from, to)
      const metadata = await FileMetadata.load(this.#place, call.session)
      for (const file of [...metadata.below(to), ...metadata.below(from)])
        await keepMetadata(this.#place, call.session, file, undefined)
      for (const file of metadata.below(from))
        await keepMetadata(this.#place, call.session, `${to}${file.slice(from.length)}`, metadata.of(file))
      return { entry: await this.#entry(call, files, to) }
    })
  }

  #remove(call: Call): Promise<object> {
    const file = this.#path(call, 'path')
    return this.#use(call, async (files) => {
      await files.rm(file, { recursive: true, force: true })
      const metadata = await FileMetadata.load(this.#place, call.session)
      for (const one of metadata.below(file)) await keepMetadata(this.#place, call.session, one, undefined)
      return {}
    })
  }

  async *#watch(call: Call): AsyncGenerator<object> {
    const { folder, recursive, files } = await this.#watched(call)
    const withEntry = call.message.includeEntry === true || call.message.include_entry === true
    const place = this.#place
    yield* within(call, async function* (signal) {
      const changes = visible(await files.watch(folder, { recursive, signal }))
      yield { start: {} }
      for await (const change of changes) {
        const file = path.posix.join(folder, change.path)
        const stat = withEntry ? await files.lstat(file).catch(() => undefined) : undefined
        const metadata = stat && (await FileMetadata.load(place, call.session))
        const entry =
          stat && metadata
            ? { entry: await entryOf(files, file, stat, metadata, await ownersIn(files, signal)) }
            : {}
        yield { filesystem: { ...eventOf(change), ...entry } }
      }
      // A watch ends only with its client, its sandbox or the daemon.
      throw signal.aborted ? endedBy(signal) : sandboxGone(call.session.id)
    })
  }

  async #createWatcher(call: Call): Promise<object> {
    const { folder, recursive, files } = await this.#watched(call)
    const watcher = await this.#watchers.begin(call.session.id, async (signal) =>
      visible(await files.watch(folder, { recursive, signal })),
    )
    return { watcherId: watcher }
  }

  /** A watch is not activity and does not keep the session alive. */
  async #watched(call: Call): Promise<{ folder: string; recursive: boolean; files: Files }> {
    const folder = this.#path(call, 'path')
    const used = await this.#place.services.sessions.use.take(call.caller, call.session.id, { wake: false })
    used.release()
    const { files } = used.sandbox
    const { type } = await files.stat(folder)
    if (type !== 'directory') throw new SandboxError('not_a_directory', `${folder} is not a folder.`)
    return { folder, recursive: call.message.recursive === true, files }
  }

  async #entry(call: Call, files: Files, file: string): Promise<object> {
    const stat = await files.lstat(file)
    const metadata = await FileMetadata.load(this.#place, call.session)
    return entryOf(files, file, stat, metadata, await ownersIn(files))
  }

  #path({ message, session }: Call, name: string): string {
    return absolute(text(message, name), session)
  }

  #use<T>({ caller, session }: Call, work: (files: Files) => Promise<T>): Promise<T> {
    const { use } = this.#place.services.sessions
    return use.use(caller, session.id, ({ sandbox }) => work(sandbox.files), { wake: false })
  }
}

function watcherId(message: Message): string {
  return text(message.watcherId === undefined ? { watcherId: message.watcher_id } : message, 'watcherId')
}

/** Leaves out the runner's temporary files of writes in progress. */
async function* visible(changes: AsyncIterable<FileChange>): AsyncGenerator<FileChange> {
  for await (const change of changes) if (!/(^|\/)\.[0-9a-f]{32}\.part$/.test(change.path)) yield change
}

export function eventOf({ type, path: name }: FileChange): object {
  return { name, type: eventTypes[type] }
}

const eventTypes: Readonly<Record<FileChange['type'], string>> = {
  created: 'EVENT_TYPE_CREATE',
  changed: 'EVENT_TYPE_WRITE',
  removed: 'EVENT_TYPE_REMOVE',
}
