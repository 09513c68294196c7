import { existsSync } from 'node:fs'

/** The abilities on the best platform. The provider omits those that need a missing program. */
export interface LocalCapabilities {
  readonly stdin: 'native'
  readonly reattach: 'native'
  readonly ports: 'native'
  readonly watch: 'native'
  readonly stop: 'native'
  readonly snapshot: 'native'
  readonly fork: 'emulated'
  readonly lifetime: 'native'
  /** Needs named pipes, so not on Windows. */
  readonly mergedOutput: 'native'
  /** Needs bash and named pipes, so not on Windows. */
  readonly shell: 'native'
  /** Linux only, through script(1): Node has no pseudo-terminals. */
  readonly terminal: 'emulated'
}

export function localCapabilities(
  platform: NodeJS.Platform = process.platform,
  has: (program: string) => boolean = onPath,
): LocalCapabilities {
  const pipes = platform !== 'win32' && has('mkfifo')
  const merged = pipes ? { mergedOutput: 'native' } : {}
  const shell = pipes && has('bash') ? { shell: 'native' } : {}
  const terminal = platform === 'linux' && has('script') && has('stty') ? { terminal: 'emulated' } : {}
  const everywhere = {
    stdin: 'native',
    reattach: 'native',
    ports: 'native',
    watch: 'native',
    stop: 'native',
    snapshot: 'native',
    fork: 'emulated',
    lifetime: 'native',
  }
  return Object.freeze({ ...everywhere, ...merged, ...shell, ...terminal }) as LocalCapabilities
}

function onPath(program: string): boolean {
  return (process.env.PATH ?? '/usr/bin:/bin').split(':').some((folder) => existsSync(`${folder}/${program}`))
}
