/** How much memory this process uses for objects and buffers; 0 where it cannot be known (then nothing can exceed it). */
export function heapBytes(): number {
  const { process } = globalThis as {
    process?: { memoryUsage?: () => { heapUsed: number; arrayBuffers: number } }
  }
  const usage = process?.memoryUsage?.()
  return usage ? usage.heapUsed + usage.arrayBuffers : 0
}
