import { Socket } from 'node:net'

const readBytes = 512 * 1024

/**
 * Node allocates 64 KiB for each read of a socket and frees it at the next garbage collection. Here all reads use one
 * shared buffer: its bytes are consumed before the next read, so one buffer serves the whole process and reads can be
 * larger.
 */
const common = Buffer.allocUnsafeSlow(readBytes)

/** A buffer that one socket reads into and whose bytes the consumer may keep. */
interface Block {
  readonly memory: Buffer
  /** How many consumers keep a part of it. */
  kept: number
  /** Whether a socket currently reads into it. */
  read: boolean
}

/** Shared by all sockets of this process. If all are in use, bytes arrive in the shared buffer and must be copied. */
const mostBlocks = 8
const free: Block[] = []
let made = 0

/**
 * A connection whose `data` events contain bytes that are valid until the event returns. `keep` extends that, as the
 * runner's client expects.
 */
export class FrugalSocket extends Socket {
  #lenders = 0
  #block: Block | undefined

  constructor() {
    super({
      onread: {
        buffer: () => this.#next(),
        callback: (size, memory) => {
          this.emit('data', memory.subarray(0, size))
          return true
        },
      },
    })
    this.once('close', () => this.#leave())
  }

  /** Whether a consumer uses `keep`, from the next read on. Each `true` is followed by a `false`. */
  lend(on: boolean): void {
    this.#lenders += on ? 1 : -1
  }

  /**
   * Call this within a `data` event. The bytes of the event stay valid until you call the returned function, once.
   * Returns undefined if no block is free; copy the bytes then.
   */
  keep(): (() => void) | undefined {
    const block = this.#block
    if (!block) return undefined
    block.kept += 1
    return () => {
      block.kept -= 1
      giveBack(block)
    }
  }

  #next(): Buffer {
    if (this.#block && (this.#lenders === 0 || this.#block.kept > 0)) this.#leave()
    if (!this.#block && this.#lenders > 0) {
      this.#block = takeBlock()
      if (this.#block) this.#block.read = true
    }
    return this.#block?.memory ?? common
  }

  #leave(): void {
    const block = this.#block
    this.#block = undefined
    if (!block) return
    block.read = false
    giveBack(block)
  }
}

function takeBlock(): Block | undefined {
  const block = free.pop()
  if (block || made === mostBlocks) return block
  made += 1
  return { memory: Buffer.allocUnsafeSlow(readBytes), kept: 0, read: false }
}

function giveBack(block: Block): void {
  if (block.kept === 0 && !block.read) free.push(block)
}
