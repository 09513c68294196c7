import { type SandboxCore, SandboxError } from '@sandkasten/sdk'
import type { Agent } from '../agents/index.ts'
import type { Arch, Libc } from './elf.ts'

/** What a sandbox has. Everything comes from inside it. */
export interface Inspection {
  readonly home: string
  /** The folder of our own small files, which only the sandbox's user can read. */
  readonly folder: string
  /** The working directory without symbolic links. */
  readonly directory: string
  readonly arch: Arch | 'other'
  readonly libc: Libc | undefined
  readonly avx2: boolean
  readonly tools: ReadonlySet<string>
  /** Programs of the agent's name, with their sizes. */
  readonly found: ReadonlyArray<{ readonly path: string; readonly bytes: number }>
  /** Differs after each start of the sandbox, unless the sandbox shares its machine with others. */
  readonly start: string
  /** Whether a program listens on the port. */
  readonly listening: boolean
}

/**
 * Looks into the sandbox, and prepares its home, in one call. Arguments: the name of the program, the port in
 * hexadecimal, and paths below the home. The files `models.json` and `package-lock.json` keep opencode from downloads.
 */
const script = `
program=$1 port=$2
shift 2
say() { printf '%s %s\\n' "$1" "$2"; }
say home "\${HOME-}"
say directory "$(pwd -P)"
say arch "$(uname -m)"
read -r boot </proc/sys/kernel/random/boot_id
say start "\${boot%%-*}-$(sed 's/.*) //' /proc/1/stat | cut -d ' ' -f 20)"
for loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -e "$loader" ] && say libc glibc; done
for loader in /lib/ld-musl-*; do [ -e "$loader" ] && say libc musl; done
grep -qw avx2 /proc/cpuinfo 2>/dev/null && say avx2 yes
for tool in git npm; do command -v "$tool" >/dev/null && say tool "$tool"; done
cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qi "^ *[0-9]*: [0-9A-F]*:$port [0-9A-F]*:[0-9A-F]* 0A " && say listening yes
found() { [ -f "$1" ] && [ -x "$1" ] && say found "$(wc -c <"$1") $1"; }
found "$(command -v "$program")"
for file in "$@"; do found "$HOME/$file"; done
umask 077
folder=$HOME/.local/share/sandkasten
mkdir -p "$HOME/.local/bin" "$folder" && printf '{}' >"$folder/models.json" && say folder "$folder"
config=\${XDG_CONFIG_HOME:-$HOME/.config}/opencode
if [ "$program" = opencode ] && [ ! -e "$config" ] && mkdir -p "$config/node_modules"; then
  printf '%s' '{"packages":{"":{"dependencies":{"@opencode-ai/plugin":"*"}}}}' >"$config/package-lock.json"
fi
exit 0
`

const arches: Readonly<Record<string, Arch>> = { x86_64: 'x64', aarch64: 'arm64', arm64: 'arm64' }

export interface InspectOptions {
  readonly agent: Agent
  readonly cwd: string
  readonly port: number
  /** Variables of the agent that change where its files are. */
  readonly env: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

export async function inspect(handle: SandboxCore, options: InspectOptions): Promise<Inspection> {
  const { agent, cwd, port, env, signal } = options
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const args = ['-c', script, 'sandkasten', agent.program, hex, ...agent.pathsInHome]
  const { exitCode, stdout, stderr } = await handle.runCommand({
    cmd: 'sh',
    args,
    cwd,
    env,
    signal,
    maxOutputBytes: 65_536,
  })
  const facts = new Map<string, string[]>()
  for (const line of stdout.split('\n')) {
    const space = line.indexOf(' ')
    if (space > 0)
      facts.set(line.slice(0, space), [...(facts.get(line.slice(0, space)) ?? []), line.slice(space + 1)])
  }
  const one = (name: string) => facts.get(name)?.[0]
  const [home, directory, folder] = [one('home'), one('directory'), one('folder')]
  const where = { provider: handle.provider, sandboxId: handle.sandboxId }
  if (exitCode !== 0 || !directory?.startsWith('/'))
    throw new SandboxError(
      'provider_error',
      `A look into the sandbox failed with exit code ${exitCode}: ${stderr.slice(-500)}`,
      where,
    )
  if (!home?.startsWith('/'))
    throw new SandboxError('unavailable', 'The sandbox’s user has no home folder.', {
      ...where,
      hint: homeHint,
    })
  if (folder === undefined) throw await unwritable(handle, home, stderr, signal)
  return {
    home,
    folder,
    directory,
    arch: arches[one('arch') ?? ''] ?? 'other',
    libc: facts.get('libc')?.includes('glibc') ? 'glibc' : facts.has('libc') ? 'musl' : undefined,
    avx2: facts.has('avx2'),
    tools: new Set(facts.get('tool')),
    found: uniquePrograms(facts.get('found') ?? []),
    start: /^[\w-]{1,40}$/.exec(one('start') ?? '')?.[0] ?? 'unknown',
    listening: facts.has('listening'),
  }
}

const homeHint = 'Pass a writable home: envVars: { HOME: "/workspace/home" }.'

function uniquePrograms(lines: readonly string[]): Array<{ path: string; bytes: number }> {
  const programs = lines.flatMap((line) => {
    const [, bytes, path] = /^ *(\d+) (\/.*)$/.exec(line) ?? []
    return path === undefined ? [] : [{ path, bytes: Number(bytes) }]
  })
  return programs.filter(({ path }, at) => programs.findIndex((other) => other.path === path) === at)
}

/** The error of a write says whether the disk is full or the folder is read-only. */
async function unwritable(
  handle: SandboxCore,
  home: string,
  stderr: string,
  signal: AbortSignal,
): Promise<SandboxError> {
  const file = `${home}/.sandkasten-${process.pid}`
  const cause = await handle.files
    .writeFile(file, ' '.repeat(65_536), { signal })
    .then(() => handle.files.rm(file, { force: true, signal }))
    .catch((error: unknown) => error)
  const code = SandboxError.is(cause, 'disk_full') ? 'disk_full' : 'permission_denied'
  return new SandboxError(
    code,
    `The home folder ${home} of the sandbox cannot be written: ${stderr.trim().slice(-300)}`,
    {
      provider: handle.provider,
      sandboxId: handle.sandboxId,
      cause,
      hint:
        code === 'disk_full' ? 'Free space on the disk of the sandbox, or give it a larger one.' : homeHint,
    },
  )
}
