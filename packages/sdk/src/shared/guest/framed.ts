import type { SandboxError } from '../../errors.ts'
import { type GuestErrorFacts, guestError } from './errors.ts'
import type { GuestStream } from './link.ts'
import { GuestReader } from './reader.ts'

export interface FramedResponse {
  readonly text: string
  readonly code: number
}

/**
 * The response between the line of the nonce and the line „nonce code“; undefined if it is incomplete. Without its first
 * line, the agent was not reached.
 */
export function framed(text: string, nonce: string): FramedResponse | undefined {
  const end = text.lastIndexOf(`\n${nonce} `)
  const code = /^ (\d{1,3})\s*$/.exec(text.slice(end + nonce.length + 1))?.[1]
  if (end === -1 || code === undefined) return undefined
  const first = `\n${text.slice(0, end + 1)}`.indexOf(`\n${nonce}\n`)
  return { text: first === -1 ? '' : text.slice(first + nonce.length + 1, end), code: Number(code) }
}

/** A whole response, read like a stream. */
export class TextStream implements GuestStream {
  readonly #reader: GuestReader
  readonly #code: number
  readonly #facts: GuestErrorFacts

  constructor({ text, code }: FramedResponse, facts: GuestErrorFacts) {
    let rest: Uint8Array | undefined = new TextEncoder().encode(text)
    this.#reader = new GuestReader(facts.provider, async () => {
      const all = rest
      rest = undefined
      return all
    })
    this.#code = code
    this.#facts = facts
  }

  line(): Promise<string | undefined> {
    return this.#reader.line(mostLineBytes)
  }

  async bytes(count: number): Promise<Uint8Array> {
    return (await this.#reader.bytes(count)) ?? Promise.reject(this.#error())
  }

  async problem(): Promise<SandboxError> {
    return this.#error()
  }

  close(): void {}

  #error(): SandboxError {
    return guestError(this.#code, this.#facts)
  }
}

/** A line carries up to 64 KiB as base64. */
const mostLineBytes = 256 * 1024
