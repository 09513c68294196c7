/** A participant of the comparison. Each measures itself, so that only the call itself is timed. */
export interface Subject {
  readonly name: string
  cold(): Promise<{ ms: number; box: Box }>
}

export interface Box {
  command(): Promise<number>
  /** Milliseconds until it is gone; throws if something is left. */
  destroy(): Promise<number>
}

/** The same for all subjects: a shell that does nothing, so that the program's own time is minimal. */
export const COMMAND = ['sh', '-c', 'true'] as const

export const LIMITS = { memoryBytes: 1024 ** 3, pids: 512, cpus: 1 } as const

export const USER = 1000

/** Missing isolation would be faster, so each isolated subject shows `/proc/self/status` of a command once. */
export function assertHardened(name: string, status: string, { ownKernel = false } = {}): void {
  const field = (key: string) => new RegExp(`^${key}:\\s+(\\S+)`, 'm').exec(status)?.[1]
  const wrong = [
    field('Uid') !== String(USER) && 'it runs as another user',
    !/^0+$/.test(field('CapEff') ?? 'none') && 'it has capabilities',
    // gVisor's kernel does not report it.
    !ownKernel && field('NoNewPrivs') !== '1' && 'it may gain privileges',
    field('Seccomp') !== '2' && 'its system calls are not filtered',
  ].filter((problem) => problem !== false)
  if (wrong.length > 0) throw new Error(`${name} is not hardened: ${wrong.join(', ')}`)
}
