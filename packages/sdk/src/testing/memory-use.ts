/**
 * Measures how far this process grows. Garbage does not count: before growth is reported, the collector runs, if it
 * can be triggered.
 */
export class GrowthMeter {
  readonly #allowed: number
  readonly #before = usedBytes()
  #most = 0

  constructor(allowedBytes: number) {
    this.#allowed = allowedBytes
  }

  look(): void {
    if (usedBytes() - this.#before > Math.max(this.#allowed, this.#most)) collectGarbage()
    this.#most = Math.max(this.#most, usedBytes() - this.#before)
  }

  get complaint(): string | undefined {
    if (this.#most <= this.#allowed) return undefined
    return `this process grew by ${mebibytes(this.#most)} MiB; allowed are ${mebibytes(this.#allowed)}`
  }
}

interface Host {
  gc?: () => void
  process?: {
    memoryUsage?: () => { heapUsed: number; arrayBuffers: number }
    getBuiltinModule?: (name: string) => unknown
  }
}

const host = globalThis as unknown as Host

/** Objects and buffers; 0 if unknown, which never exceeds a limit. */
function usedBytes(): number {
  const usage = host.process?.memoryUsage?.()
  return usage ? usage.heapUsed + usage.arrayBuffers : 0
}

function collectGarbage(): void {
  if (host.gc) return host.gc()
  const builtin = host.process?.getBuiltinModule
  const v8 = builtin?.('node:v8') as { setFlagsFromString(flag: string): void } | undefined
  const vm = builtin?.('node:vm') as { runInNewContext(code: string): () => void } | undefined
  if (!v8 || !vm) return
  v8.setFlagsFromString('--expose-gc')
  vm.runInNewContext('gc')()
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 1048576)
}
