import { onAbort, throwIfAborted } from '../../shared/calls/abort.ts'
import type { FileChange } from '../../spec/index.ts'
import type { Guest } from './guest/guest.ts'

/** Resolves once the vendor watches. The vendor watches only folders, so a file is watched through its folder. */
export async function watched(
  guest: Guest,
  path: string,
  { recursive, folder }: { recursive: boolean; folder: boolean },
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<FileChange>> {
  const cut = path.lastIndexOf('/')
  const at = folder ? path : path.slice(0, cut) || '/'
  const only = folder ? undefined : path.slice(cut + 1)
  const changes: FileChange[] = []
  let wake = () => {}
  let over: { error?: unknown } | undefined
  const handle = await guest.do(
    ({ files }) =>
      files.watchDir(
        at,
        ({ name, type }) => {
          const change = changeOf(name, type)
          if (!change || (only !== undefined && change.path !== only)) return
          changes.push(change)
          wake()
        },
        {
          recursive,
          timeoutMs: 0,
          onExit: (error) => {
            over = error ? { error } : {}
            wake()
          },
        },
      ),
    signal,
  )
  return {
    async *[Symbol.asyncIterator]() {
      const forget = onAbort(signal, () => wake())
      try {
        for (;;) {
          throwIfAborted(signal, 'Watching')
          const change = changes.shift()
          if (change) yield change
          else if (over?.error) throw await guest.explain(over.error, signal)
          else if (over) return
          else
            await new Promise<void>((resolve) => {
              wake = resolve
            })
        }
      } finally {
        forget()
        await handle.stop()
      }
    },
  }
}

/** A rename removes the old name; a separate event reports the new one. */
function changeOf(name: string, type: string): FileChange | undefined {
  const known = types[type]
  return known && { type: known, path: name.replace(/^\.?\//, '') }
}

const types: Readonly<Record<string, FileChange['type']>> = {
  create: 'created',
  write: 'changed',
  chmod: 'changed',
  remove: 'removed',
  rename: 'removed',
}
