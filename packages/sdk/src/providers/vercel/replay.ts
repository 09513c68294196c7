import { abortable } from '../../shared/abort.ts'
import type { ProcessEvent } from '../../spec/index.ts'
import type { ProcessLog } from './log.ts'
import { gone } from './process.ts'

/** The output of a program that has ended: as much of its end as was to be kept. */
export async function* replayed(
  open: () => Promise<ProcessLog>,
  after: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<ProcessEvent> {
  const log = await abortable(open(), signal, 'Reading the output')
  const kept: ProcessEvent[] = []
  let bytes = 0
  let most = Infinity
  let head = 0
  try {
    for (;;) {
      const said = await abortable(log.next(), signal, 'Reading the output')
      if (!said) break
      if (said.kind === 'started') most = said.keptBytes
      if (said.kind !== 'event') continue
      kept.push(said.event)
      bytes += costOf(said.event)
      while (bytes > most && head < kept.length - 2) {
        bytes -= costOf(kept[head]!)
        kept[head] = undefined as never
        head += 1
      }
      if (said.event.type === 'exit') break
    }
  } finally {
    log.close()
  }
  const oldest = kept[head]?.seq
  if (oldest !== undefined && after + 1 < oldest) throw gone(after, oldest)
  for (const event of kept.slice(head)) if (event.seq > after) yield event
}

function costOf(event: ProcessEvent): number {
  return event.type === 'exit' ? 0 : event.data.byteLength
}
