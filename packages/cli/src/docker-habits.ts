/**
 * Docker's words. A command of Docker's that has a twin here is run as that twin; for everything else that Docker knows and we do not, the error
 * gets a hint. docs/from-docker.md is the list for people, and a test compares the two.
 */
export interface Known {
  has(command: string): boolean
}

/** The same arguments with Docker's command replaced by ours. A command of our own always wins. */
export function fromDocker(argv: readonly string[], ours: Known): string[] {
  const [program, script, command, ...rest] = argv
  const same = [...argv]
  if (program === undefined || script === undefined || command === undefined || ours.has(command)) return same
  const twin = TWINS[command]
  if (!twin) return same
  const words = rest.map((word) => twin.options?.[word] ?? word).filter((word) => word !== '')
  return [program, script, ...twin.words, ...words]
}

/** What to do instead, for an error about this command, option or value. */
export function dockerHint(argv: readonly string[], message: string): string | undefined {
  const [, , command] = argv
  const word = /'([^' ]+)[^']*'/.exec(message)?.[1]
  if (/unknown command/.test(message)) return word === undefined ? undefined : COMMANDS[word]
  if (/argument '(host|bridge)' is invalid/.test(message) && /--network/.test(message))
    return 'Use --network open to let the sandbox reach out.'
  if (word === undefined || !/unknown option/.test(message)) return undefined
  if (command === 'run') return RUN_OPTIONS[word.split('=')[0]!]
  if (command === 'exec' && /^-(it|ti|t|i)$|^--(tty|interactive)$/.test(word))
    return 'A terminal in a session: sandkasten shell SESSION'
  return undefined
}

/** `docker run IMAGE COMMAND`: here the image is an option. */
export function imageHint(command: readonly string[]): string | undefined {
  const [image, ...rest] = command
  if (image === undefined || !/^[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?$/.test(image)) return undefined
  return `If ${image} is an image: sandkasten run --image ${image} -- ${rest.length > 0 ? rest.join(' ') : 'COMMAND'}`
}

interface Twin {
  readonly words: readonly string[]
  /** Docker's options that are called otherwise here; an empty text drops one that is always true. */
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
  build: 'Images are made of recipes (sandkasten image build), or pulled: sandkasten image pull NAME',
  compose: `There are no compose files; each service is a session: ${SESSIONS}`,
  container: 'Containers are sessions here: sandkasten sessions list',
  create: `Use ${SESSIONS}`,
  events: 'Use sandkasten logs --follow SESSION',
  kill: 'Use sandkasten sessions stop SESSION',
  login: 'Use skopeo login --authfile FILE, then sandkasten image pull --authfile FILE NAME',
  network: 'A sandbox has its own network: sandkasten run --network open, or none',
  restart: 'Use sandkasten sessions stop SESSION, then sandkasten sessions start SESSION',
  save: 'A saved disk of a session: sandkasten snapshot create SESSION',
  stats: 'Use sandkasten status',
  system: 'Use sandkasten image prune to free space',
  tag: 'Names of images come from the registry: sandkasten image pull NAME',
  version: 'Use sandkasten --version',
  volume: 'Mount a folder: sandkasten run --mount ./data:/data:rw',
}

const RUN_OPTIONS: Readonly<Record<string, string>> = {
  ...both('-d', '--detach', `run stays until the command ends. What shall go on is a session: ${SESSIONS}`),
  ...both('-p', '--publish', 'Ports belong to sessions: sandkasten ports open SESSION 8080'),
  ...both(
    '-u',
    '--user',
    'The sandbox’s user is the image’s own, or 1000 where that is root. Files in a writable mount belong to the folder’s owner.',
  ),
  ...both('-h', '--hostname', 'The host name of a sandbox is sandbox.'),
  ...both('-l', '--label', `Labels belong to sessions: ${SESSIONS}`),
  '--name': `Names belong to sessions: ${SESSIONS}`,
  '--net': 'Use --network open, or --network none.',
  '--entrypoint': 'Name the program: sandkasten run --image IMAGE -- PROGRAM',
  '--env-file': 'Name each variable with -e NAME.',
  '--pull': 'Pull it first: sandkasten image pull NAME',
  '--restart': `run runs a command once. What shall go on is a session: ${SESSIONS}`,
  '--init': 'PID 1 of every sandbox is an init already: leave it out.',
  '--read-only': 'Nothing of a run stays, and the image is never changed: leave it out.',
  '--privileged': 'No sandbox has more rights than another.',
  '--cap-add': 'No sandbox has more rights than another.',
  '--cap-drop': 'Commands have no capabilities at all: leave it out.',
  '--security-opt': 'The filter of system calls and no-new-privileges are always on: leave it out.',
  '--tmpfs': '/tmp and /run are in memory already.',
  '--gpus': 'A sandbox has no devices of this machine.',
  '--device': 'A sandbox has no devices of this machine.',
}

function both(short: string, long: string, hint: string): Record<string, string> {
  return { [short]: hint, [long]: hint }
}
