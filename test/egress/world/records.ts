/** What reached a stand-in. Each stand-in is a process that prints its records as lines of JSON. */
export interface Reached {
  /** `packet` is one packet on the cable; the others are what a server understood. */
  readonly kind: 'packet' | 'tcp' | 'tls' | 'http' | 'h2' | 'websocket' | 'connect' | 'dns' | 'unix'
  /** Address and port that were called, or the path of a Unix socket. */
  readonly at: string
  readonly data: string
  readonly protocol?: number | string
  /** IP options of a packet, in hexadecimal. */
  readonly options?: string
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>
}

export function say(record: Reached | { ready: true }): void {
  process.stdout.write(`${JSON.stringify(record)}\n`)
}

/** The beginning of what was sent, byte for byte. */
export const text = (bytes: Buffer) => bytes.toString('latin1', 0, 2048)
