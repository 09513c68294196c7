import { type FSWatcher, lstatSync, readdirSync, watch } from 'node:fs'
import path from 'node:path'
import { onAbort } from '../../shared/calls/abort.ts'
import type { FileChange } from '../../spec/index.ts'

export interface WatchFolderOptions {
  recursive: boolean
  only?: string
  signal?: AbortSignal | undefined
}

/**
 * Changes below a folder, in order. Each folder has one system watcher, which reports a name. The change follows from
 * whether the name exists now and existed before. A new folder is watched at once, and its existing content is reported.
 */
export function watchFolder(root: string, options: WatchFolderOptions): AsyncIterable<FileChange> {
  const watchers = new Map<string, FSWatcher>()
  const known = new Set<string>()
  const queue: FileChange[] = []
  let wake: () => void = () => {}
  let closed = false

  const tell = (type: FileChange['type'], file: string) => {
    if (options.only !== undefined && file !== options.only) return
    queue.push({ type, path: file })
    wake()
  }
  const add = (folder: string, announce: boolean) => {
    const full = path.join(root, folder)
    // Watch before reading, so that no change is missed.
    const watcher = watch(full, (event, name) => name !== null && changed(folder, name, event))
    watcher.on('error', () => drop(folder))
    watchers.set(folder, watcher)
    for (const entry of readdirSync(full, { withFileTypes: true })) {
      const file = join(folder, entry.name)
      if (announce && !known.has(file)) tell('created', file)
      known.add(file)
      if (options.recursive && entry.isDirectory() && !watchers.has(file)) addIfThere(file, announce)
    }
  }
  const addIfThere = (folder: string, announce: boolean) => {
    try {
      add(folder, announce)
    } catch {
      // The folder vanished before it could be watched; its parent reports the removal.
      drop(folder)
    }
  }
  const changed = (folder: string, name: string, event: string) => {
    const file = join(folder, name)
    const facts = lstatSync(path.join(root, file), { throwIfNoEntry: false })
    const was = known.has(file)
    if (!facts) {
      if (was) tell('removed', file)
      drop(file)
      return
    }
    known.add(file)
    if (!was) tell('created', file)
    else if (event === 'change' || !facts.isDirectory()) tell('changed', file)
    if (options.recursive && facts.isDirectory() && !watchers.has(file)) addIfThere(file, true)
  }
  const drop = (folder: string) => {
    for (const file of known) if (file === folder || file.startsWith(`${folder}/`)) known.delete(file)
    for (const [watched, watcher] of watchers) {
      if (watched !== folder && !watched.startsWith(`${folder}/`)) continue
      watcher.close()
      watchers.delete(watched)
    }
  }
  const close = () => {
    closed = true
    for (const watcher of watchers.values()) watcher.close()
    watchers.clear()
    forget()
    wake()
  }

  add('', false)
  const forget = onAbort(options.signal, () => close())

  return {
    [Symbol.asyncIterator]: () => ({
      async next() {
        while (queue.length === 0 && !closed) {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
        const value = queue.shift()
        return value === undefined ? { done: true, value: undefined } : { done: false, value }
      },
      async return() {
        close()
        return { done: true, value: undefined }
      },
    }),
  }
}

function join(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`
}
