import { SandboxError } from '../../errors.ts'
import type { ProcessEvent, ProcessExit, ProcessStatus } from '../../spec/index.ts'
import type { GuestLink, GuestStream } from './link.ts'

export type GuestEvent = ProcessEvent | { readonly type: 'past' }

/** The events of one response of `follow`. All of it comes from the sandbox: another form, number or size is an error. */
export async function* eventsOf(
  stream: GuestStream,
  after: number,
  { provider, sandboxId }: Pick<GuestLink, 'provider' | 'sandboxId'>,
): AsyncGenerator<GuestEvent> {
  for (let last = after; ; ) {
    const line = await stream.line()
    if (line === undefined) return
    const [kind, number, ...words] = line.split(' ')
    if (kind === 'z') {
      yield { type: 'past' }
      return
    }
    if (kind === 'l')
      throw new SandboxError('interrupted', 'How the process ended is unknown: its keeper was killed.', {
        provider,
        sandboxId,
      })
    const seq = whole(number)
    if (kind === 'g')
      throw new SandboxError(
        'gone',
        `Output after event ${last} was dropped; the oldest kept is event ${seq}.`,
        { provider, details: { after: last, oldest: seq } },
      )
    if (seq !== last + 1) throw malformed(provider)
    last = seq
    if (kind === 'x') {
      yield { seq, type: 'exit', ...exitFrom(words) }
      return
    }
    if (kind !== 'o' && kind !== 'e') throw malformed(provider)
    const [size = ''] = words
    const data = size.startsWith('=')
      ? fromBase64(size.slice(1), provider)
      : await stream.bytes(whole(size, mostBytes))
    yield { seq, type: kind === 'o' ? 'stdout' : 'stderr', data }
  }
}

const mostBytes = 1024 * 1024

export function statusFrom([state, ...words]: readonly string[]): ProcessStatus {
  if (state === 'running') return { running: true }
  if (state !== 'ended') return { running: false }
  return { running: false, exit: exitFrom(words) }
}

function exitFrom([code, name, timedOut, durationMs]: readonly string[]): ProcessExit {
  return {
    exitCode: whole(code, 255),
    signal: name !== undefined && /^[A-Z][A-Z0-9+-]{1,11}$/.test(name) ? `SIG${name}` : undefined,
    timedOut: timedOut === '1',
    durationMs: whole(durationMs),
  }
}

function whole(text: string | undefined, most = Number.MAX_SAFE_INTEGER): number {
  const value = /^\d{1,16}$/.test(text ?? '') ? Number(text) : Number.NaN
  if (value <= most) return value
  throw malformed()
}

function fromBase64(text: string, provider: string): Uint8Array {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length > 2 * mostBytes) throw malformed(provider)
  return new Uint8Array(Buffer.from(text, 'base64'))
}

function malformed(provider?: string): SandboxError {
  return new SandboxError('provider_error', 'The output of a process has an invalid form.', {
    provider,
    hint: 'The response was changed or truncated on its way, or a program in the sandbox has changed its record.',
  })
}
