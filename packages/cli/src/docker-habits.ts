/**
 * Docker's commands and options. A Docker command with an equivalent is run as that; any other gets an error with a
 * hint.
 * docs/from-docker.md lists the same for users, and a test compares the two.
 */
export interface Known {
  has(command: string): boolean
}

/** Replaces Docker's command by ours. A command of our own takes precedence. */
export function fromDocker(argv: readonly string[], ours: Known): string[] {
  const [program, script, command, ...rest] = argv
  const same = [...argv]
  if (program === undefined || script === undefined || command === undefined || ours.has(command)) return same
  const twin = TWINS[command]
  if (!twin) return same
  const words = rest.map((word) => twin.options?.[word] ?? word).filter((word) => word !== '')
  return [program, script, ...twin.words, ...words]
}

export function dockerHint(argv: readonly string[], message: string): string | undefined {
  const [, , command] = argv
  const word = /'([^' ]+)[^']*'/.exec(message)?.[1]
  if (/unknown command/.test(message)) return word === undefined ? undefined : COMMANDS[word]
  if (/argument '.*' is invalid/.test(message) && /--user/.test(message))
    return 'Use --user root, or omit it: the sandbox then runs as the image’s user, or as 1000 if that is root.'
  if (/argument '(host|bridge)' is invalid/.test(message) && /--network/.test(message))
    return 'Use --network open to allow outgoing connections.'
  if (word === undefined || !/unknown option/.test(message)) return undefined
  if (command === 'run') return RUN_OPTIONS[word.split('=')[0]!]
  if (command === 'exec' && /^-(it|ti|t|i)$|^--(tty|interactive)$/.test(word))
    return 'To open a terminal in a session: sandkasten shell SESSION'
  return undefined
}

/** Hint for `docker run IMAGE COMMAND`: here the image is an option. */
export function imageHint(command: readonly string[]): string | undefined {
  const [image, ...rest] = command
  if (image === undefined || !/^[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?$/.test(image)) return undefined
  return `If ${image} is an image: sandkasten run --image ${image} -- ${rest.length > 0 ? rest.join(' ') : 'COMMAND'}`
}

interface Twin {
  readonly words: readonly string[]
  /** Docker's options under their names here; an empty string drops an option that is always on. */
  readonly options?: Readonly<Record<string, string>>
}

const TWINS: Readonly<Record<string, Twin>> = {
  ps: { words: ['sessions', 'list'], options: { '-a': '--all' } },
  images: { words: ['image', 'list'] },
  pull: { words: ['image', 'pull'] },
  rmi: { words: ['image', 'remove'], options: { '-f': '', '--force': '' } },
  load: { words: ['image', 'import'], options: { '-i': '', '--input': '' } },
  rm: { words: ['sessions', 'destroy'], options: { '-f': '', '--force': '' } },
  stop: { words: ['sessions', 'stop'] },
  start: { words: ['sessions', 'start'] },
  pause: { words: ['sessions', 'pause'] },
  unpause: { words: ['sessions', 'resume'] },
  inspect: { words: ['sessions', 'get'] },
  attach: { words: ['shell'] },
  commit: { words: ['snapshot', 'create'] },
  port: { words: ['ports', 'list'] },
  info: { words: ['doctor'] },
}

const SESSIONS = 'sandkasten sessions create --name NAME'

const COMMANDS: Readonly<Record<string, string>> = {
  build: 'Build images from recipes (sandkasten image build), or pull them: sandkasten image pull NAME',
  compose: `Compose files are not supported; create a session for each service: ${SESSIONS}`,
  container: 'Containers are sessions here: sandkasten sessions list',
  create: `Use ${SESSIONS}`,
  events: 'Use sandkasten logs --follow SESSION',
  kill: 'Use sandkasten sessions stop SESSION',
  login: 'Use skopeo login --authfile FILE, then sandkasten image pull --authfile FILE NAME',
  network: 'A sandbox has its own network: sandkasten run --network open, or none',
  restart: 'Use sandkasten sessions stop SESSION, then sandkasten sessions start SESSION',
  save: 'To save the disk of a session: sandkasten snapshot create SESSION',
  stats: 'Use sandkasten status',
  system: 'Use sandkasten image prune to free space',
  tag: 'Names of images come from the registry: sandkasten image pull NAME',
  version: 'Use sandkasten --version',
  volume: 'Use sandkasten volumes; for a folder of this machine: sandkasten run --mount ./data:/data:rw',
}

const RUN_OPTIONS: Readonly<Record<string, string>> = {
  ...both(
    '-d',
    '--detach',
    `run waits until the command ends. For a command that keeps running, use a session: ${SESSIONS}`,
  ),
  ...both('-p', '--publish', 'Ports belong to sessions: sandkasten ports open SESSION 8080'),
  ...both('-h', '--hostname', 'The host name of a sandbox is sandbox.'),
  ...both('-l', '--label', `Labels belong to sessions: ${SESSIONS}`),
  '--name': `Names belong to sessions: ${SESSIONS}`,
  '--net': 'Use --network open, or --network none.',
  '--entrypoint': 'Name the program: sandkasten run --image IMAGE -- PROGRAM',
  '--env-file': 'Name each variable with -e NAME.',
  '--pull': 'Pull it first: sandkasten image pull NAME',
  '--restart': `run runs a command once. For a command that keeps running, use a session: ${SESSIONS}`,
  '--init': 'PID 1 of every sandbox is already an init process: omit the option.',
  '--read-only': 'A run never keeps its changes and never modifies the image: omit the option.',
  '--privileged': 'Sandboxes cannot get additional privileges.',
  '--cap-add': 'Sandboxes cannot get additional privileges.',
  '--cap-drop': 'Commands have no capabilities at all: omit the option.',
  '--security-opt': 'The system call filter and no-new-privileges are always on: omit the option.',
  '--tmpfs': '/tmp and /run are in memory already.',
  '--gpus': 'A sandbox has no access to devices of this machine.',
  '--device': 'A sandbox has no access to devices of this machine.',
}

function both(short: string, long: string, hint: string): Record<string, string> {
  return { [short]: hint, [long]: hint }
}
