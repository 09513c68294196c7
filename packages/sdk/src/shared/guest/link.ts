import type { SandboxError } from '../../errors.ts'
import type { CallOptions } from '../../spec/index.ts'

/** A plain word of a call: letters, digits and `_ . : -`. */
export type Word = string | number

/** What a provider has to offer: calls of its agent, over its own transport. */
export interface GuestLink {
  readonly provider: string
  readonly sandboxId: string
  /** Where programs are, in errors: `on the host`, `in the sandbox`. */
  readonly place: string
  /** The sandbox and its start, as the agent knows them. */
  readonly id: string
  readonly start: string
  /** A stream goes on when its reader has left, until the agent ends it. */
  readonly lingers?: boolean
  /** Set if a response is a text and not a stream: output is then read in pages. */
  readonly page?: { readonly waitMs: number; readonly bytes: number }
  /** Returns the whole response, or throws the agent's error. */
  ask(verb: string, words: readonly Word[], call: GuestCall): Promise<string>
  /** Resolves when the response begins. */
  open(verb: string, words: readonly Word[], call: GuestCall): Promise<GuestStream>
  /**
   * Writes data to a file in the agent's folder and returns its name. A provider without it opens a stream with stdin.
   */
  upload?(data: Uint8Array, call: CallOptions): Promise<string>
  /** Whether to go on reading after this failure; may wait, for a sandbox that is paused. */
  goesOn?(error: unknown, failures: number, signal?: AbortSignal): Promise<boolean>
}

export interface GuestCall extends CallOptions {
  /** Lines of input. They may contain any bytes. */
  readonly input?: readonly Uint8Array[]
  /** The subject of errors. */
  readonly what?: string | undefined
  /** How long the agent itself may wait. */
  readonly waitMs?: number | undefined
  /** The stream has a stdin. */
  readonly stdin?: boolean
}

export interface GuestStream {
  /** The next line, or undefined at the end of the response. */
  line(): Promise<string | undefined>
  bytes(count: number): Promise<Uint8Array>
  /** Why the response has ended before what was expected. Reads it to its end. */
  problem(): Promise<SandboxError>
  close(): void
  write?(data: Uint8Array, signal?: AbortSignal): Promise<void>
  /** Reads the rest of the response, so that its end is noticed. */
  discard?(): Promise<void>
  /** Resolves when all data has been taken. */
  endInput?(): Promise<void>
}
