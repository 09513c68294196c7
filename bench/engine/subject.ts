/** What takes part in the comparison. Each measures itself, so that everything around the measured call stays outside. */
export interface Subject {
  readonly name: string
  /** From nothing to the first command's end. */
  cold(): Promise<{ ms: number; box: Box }>
}

export interface Box {
  /** Milliseconds of one more command. */
  command(): Promise<number>
  /** Milliseconds until it is gone; throws when something of it is left. */
  destroy(): Promise<number>
}

/** The same for everyone: a shell that does nothing, as far from the programs' own time as possible. */
export const COMMAND = ['sh', '-c', 'true'] as const

export const LIMITS = { memoryBytes: 1024 ** 3, pids: 512, cpus: 1 } as const

/** The user that commands run as. */
export const USER = 1000

/** A wall that is not there is faster than any: each isolated subject shows `/proc/self/status` of a command, once. */
export function assertHardened(name: string, status: string, { ownKernel = false } = {}): void {
  const field = (key: string) => new RegExp(`^${key}:\\s+(\\S+)`, 'm').exec(status)?.[1]
  const wrong = [
    field('Uid') !== String(USER) && 'it is another user',
    !/^0+$/.test(field('CapEff') ?? 'none') && 'it has capabilities',
    // gVisor's kernel does not say it.
    !ownKernel && field('NoNewPrivs') !== '1' && 'it may gain privileges',
    field('Seccomp') !== '2' && 'its system calls are not filtered',
  ].filter((problem) => problem !== false)
  if (wrong.length > 0) throw new Error(`${name} is not hardened: ${wrong.join(', ')}`)
}
