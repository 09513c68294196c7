import path from 'node:path'

/** Mark every process of a sandbox and of one command, so that all of them can be found. */
export const sandboxMarker = 'SANDKASTEN_SANDBOX'
export const processMarker = 'SANDKASTEN_PROCESS'

/**
 * The variables of this process that commands inherit: PATH, the locale, and the operating system's requirements. Nothing
 * else is inherited, so no secret of this process reaches a sandbox unless `inheritEnv` names it.
 */
export function baseEnvironment(options: {
  home: string
  tmp: string
  inherit: readonly string[]
}): Record<string, string> {
  const env: Record<string, string> = {}
  const needed = process.platform === 'win32' ? windowsNeeds : ['PATH', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ']
  for (const name of [...needed, ...options.inherit]) {
    const value = process.env[name]
    if (value !== undefined) env[name] = value
  }
  if (process.platform === 'win32')
    return { ...env, USERPROFILE: options.home, TEMP: options.tmp, TMP: options.tmp }
  return {
    LANG: 'C.UTF-8',
    PATH: '/usr/local/bin:/usr/bin:/bin',
    ...env,
    HOME: options.home,
    TMPDIR: options.tmp,
    TERM: 'dumb',
  }
}

const windowsNeeds = [
  'Path',
  'PATH',
  'PATHEXT',
  'SystemRoot',
  'SystemDrive',
  'ComSpec',
  'WINDIR',
  'NUMBER_OF_PROCESSORS',
  'PROCESSOR_ARCHITECTURE',
]

/** The private folders of a sandbox, beside its workspace. */
export function foldersOf(home: string): {
  workspace: string
  home: string
  tmp: string
  partial: string
  processes: string
} {
  return {
    workspace: path.join(home, 'workspace'),
    home: path.join(home, 'home'),
    tmp: path.join(home, 'tmp'),
    partial: path.join(home, 'partial'),
    processes: path.join(home, 'processes'),
  }
}
