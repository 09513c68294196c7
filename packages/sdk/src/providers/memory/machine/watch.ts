import { onAbort } from '../../../shared/calls/abort.ts'
import type { FileChange } from '../../../spec/index.ts'
import { fsError, type Vfs } from './virtual-files.ts'

/** Changes below a path from now on, in order. */
export function watch(
  vfs: Vfs,
  path: string,
  recursive: boolean,
  signal: AbortSignal | undefined,
): AsyncIterable<FileChange> {
  const { path: root, node, name } = vfs.place(path, { follow: true })
  if (!node) throw fsError('file_not_found', path)
  const queue: FileChange[] = []
  let wake = () => {}
  let ended = false
  const listener = (type: FileChange['type'], changed: string) => {
    const relative =
      changed === root
        ? name
        : changed.startsWith(root === '/' ? root : `${root}/`)
          ? changed.slice(root.length).replace(/^\//, '')
          : undefined
    if (relative === undefined || (changed === root && node.type === 'directory')) return
    if (!recursive && changed !== root && relative.includes('/')) return
    queue.push({ type, path: relative })
    wake()
  }
  const end = () => {
    ended = true
    vfs.watchers.delete(listener)
    forget()
    wake()
  }
  vfs.watchers.add(listener)
  const forget = onAbort(signal, () => end())

  async function next(): Promise<IteratorResult<FileChange>> {
    for (;;) {
      const value = queue.shift()
      if (value) return { done: false, value }
      if (ended) return { done: true, value: undefined }
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  async function finish(): Promise<IteratorResult<FileChange>> {
    end()
    return { done: true, value: undefined }
  }
  return { [Symbol.asyncIterator]: () => ({ next, return: finish }) }
}
