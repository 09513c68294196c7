import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chown, mkdir, mkdtemp, readdir, rename, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** A Postgres server for one test, with its own folder and socket, and without a TCP port. */
export interface TestPostgres {
  readonly url: string
  /** A new, empty database. */
  database(name: string): Promise<string>
  /** Kills the server, as a power cut does, and starts it again with the same data. */
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

/** Why there is no Postgres, or undefined. */
export async function postgresMissing(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'Postgres is started by root as the user postgres'
  return (await programs()) ? undefined : 'Postgres is not installed (apt-get install postgresql)'
}

export async function startPostgres(): Promise<TestPostgres> {
  const bin = await programs()
  if (!bin) throw new Error('Postgres is not installed.')
  const folder = await mkdtemp(path.join(await fastFolder(), 'sk-pg-'))
  const id = async (flag: string) => Number((await execute('id', [flag, 'postgres'])).stdout)
  const user = { uid: await id('-u'), gid: await id('-g') }
  await chown(folder, user.uid, user.gid)
  const data = path.join(folder, 'data')
  const options = { ...user, cwd: folder, env: { PATH: `${bin}:/usr/bin:/bin`, LC_ALL: 'C.UTF-8' } }
  await newCluster(bin, data, options)
  const url = (name: string) => `postgres://postgres@/${name}?host=${encodeURIComponent(folder)}`
  let server: ReturnType<typeof spawn> | undefined
  const start = async () => {
    const flags = [
      '-D',
      data,
      '-k',
      folder,
      '-c',
      'listen_addresses=',
      '-c',
      'fsync=off',
      '-c',
      'max_connections=60',
    ]
    server = spawn(path.join(bin, 'postgres'), flags, { ...options, stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    server.stderr?.on('data', (chunk) => {
      said = `${said}${chunk}`.slice(-4000)
    })
    const ended = new Promise<never>((_, reject) =>
      server!.once('exit', (code) => reject(new Error(`postgres ended with ${code}: ${said}`))),
    )
    ended.catch(() => {})
    await Promise.race([ended, ready(path.join(bin, 'pg_isready'), folder, options)])
  }
  const end = async (signal: NodeJS.Signals) => {
    if (!server || server.exitCode !== null || server.signalCode !== null) return
    const gone = new Promise((resolve) => server!.once('exit', resolve))
    server.kill(signal)
    await gone
  }
  await start()
  return {
    url: url('postgres'),
    async database(name) {
      await execute(path.join(bin, 'createdb'), ['-h', folder, '-U', 'postgres', name], options)
      return url(name)
    },
    start,
    kill: () => end('SIGQUIT'),
    async stop() {
      await end('SIGQUIT')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const cache = path.resolve(import.meta.dirname, '../../../../node_modules/.cache')

/** Copies the data of a new server: initdb takes ten times as long. */
async function newCluster(bin: string, data: string, options: object): Promise<void> {
  const template = path.join(cache, `postgres-${path.basename(path.dirname(bin))}`)
  if (existsSync(template)) {
    await execute('cp', ['-a', template, data])
    return
  }
  await execute(path.join(bin, 'initdb'), ['-D', data, '-A', 'trust', '-U', 'postgres', '--no-sync'], options)
  const draft = `${template}.${process.pid}`
  await mkdir(cache, { recursive: true })
  await execute('cp', ['-a', data, draft])
  // Another process may have been faster.
  await rename(draft, template).catch(() => rm(draft, { recursive: true, force: true }))
}

/**
 * In memory, if there is room: a new server has a thousand files, and each new database three hundred. A server keeps its
 * files while it is killed and started again, as on a disk.
 */
async function fastFolder(): Promise<string> {
  const memory = '/dev/shm'
  const free = await statfs(memory).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  )
  return free > 2 * 1024 ** 3 ? memory : tmpdir()
}

async function ready(program: string, folder: string, options: object): Promise<void> {
  for (;;) {
    const answer = await execute(program, ['-h', folder, '-q'], options).then(
      () => true,
      () => false,
    )
    if (answer) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Finds the programs. Debian has a folder for each version. */
async function programs(): Promise<string | undefined> {
  const base = '/usr/lib/postgresql'
  const versions = await readdir(base).catch(() => [])
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0]
  const bin = newest === undefined ? undefined : path.join(base, newest, 'bin')
  return bin && existsSync(path.join(bin, 'initdb')) ? bin : undefined
}
