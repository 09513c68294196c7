import { existsSync } from 'node:fs'

/** What a local sandbox can do on the best platform. Where a program is missing, the provider's data says so. */
export interface LocalCapabilities {
  readonly stdin: 'native'
  readonly reattach: 'native'
  readonly ports: 'native'
  readonly watch: 'native'
  readonly stop: 'native'
  readonly snapshot: 'native'
  readonly fork: 'emulated'
  readonly lifetime: 'native'
  /** Wherever there are bash and named pipes: not on Windows. */
  readonly shell: 'native'
  /** Linux, by way of script(1): Node has no pseudo-terminals of its own. */
  readonly terminal: 'emulated'
}

export function localCapabilities(
  platform: NodeJS.Platform = process.platform,
  has: (program: string) => boolean = onPath,
): LocalCapabilities {
  const shell = platform !== 'win32' && has('bash') && has('mkfifo') ? { shell: 'native' } : {}
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
  return Object.freeze({ ...everywhere, ...shell, ...terminal }) as LocalCapabilities
}

function onPath(program: string): boolean {
  return (process.env.PATH ?? '/usr/bin:/bin').split(':').some((folder) => existsSync(`${folder}/${program}`))
}
