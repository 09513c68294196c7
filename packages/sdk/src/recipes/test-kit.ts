import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { LocalProvider } from '../providers/local/index.ts'

/** Test helpers for recipes: real repositories, real sandboxes and cleanup. */

process.env.GIT_CONFIG_GLOBAL = '/dev/null'
process.env.GIT_CONFIG_NOSYSTEM = '1'

const identity = {
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
}

const folders: string[] = []

export function tempFolder(name = 'recipes'): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `sk-test-${name}-`)))
  folders.push(folder)
  return folder
}

export function removeTempFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}

export function git(cwd: string, ...args: string[]): string {
  const env = { ...process.env, ...identity }
  return execFileSync('git', ['-c', 'init.defaultBranch=main', '-c', 'protocol.file.allow=always', ...args], {
    cwd,
    env,
    encoding: 'utf8',
    stdio: 'pipe',
  }).trimEnd()
}

/** Writes files (`null` removes one); a trailing `*` in the name makes it executable. */
export function write(dir: string, files: Record<string, string | Uint8Array | null>): void {
  for (const [key, content] of Object.entries(files)) {
    const path = join(dir, key.replace(/\*$/, ''))
    if (content === null) {
      rmSync(path)
      continue
    }
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
    if (key.endsWith('*')) chmodSync(path, 0o755)
  }
}

export function repository(
  files: Record<string, string | Uint8Array> = { 'a.txt': 'one\n' },
  dir = tempFolder('repo'),
): string {
  mkdirSync(dir, { recursive: true })
  git(dir, 'init', '-q')
  write(dir, files)
  git(dir, 'add', '-A')
  git(dir, 'commit', '-q', '-m', 'first')
  return dir
}

export async function localSandbox() {
  const root = tempFolder('sandboxes')
  const provider = new LocalProvider({ root, acceptNoIsolation: true })
  const sandbox = await provider.create()
  return { provider, sandbox, root, dir: sandbox.workdir }
}

/** Every file, link and mode below a folder, with hashes. Equal texts mean equal trees. */
export function fingerprint(dir: string, options: { without?: RegExp; times?: boolean } = {}): string {
  const lines: string[] = []
  const walk = (path: string) => {
    for (const name of readdirSync(join(dir, path)).sort()) {
      const inside = path === '' ? name : `${path}/${name}`
      if (options.without?.test(inside)) continue
      const facts = lstatSync(join(dir, inside))
      const time = options.times ? ` ${facts.mtimeMs}` : ''
      if (facts.isDirectory()) {
        lines.push(`${inside}/${time}`)
        walk(inside)
      } else if (facts.isSymbolicLink()) lines.push(`${inside} -> ${readlinkSync(join(dir, inside))}`)
      else
        lines.push(
          `${inside} ${(facts.mode & 0o777).toString(8)} ${createHash('sha256')
            .update(readFileSync(join(dir, inside)))
            .digest('hex')}${time}`,
        )
    }
  }
  walk('')
  return lines.join('\n')
}

export function leftovers(): string[] {
  return readdirSync(tmpdir()).filter((name) => /^sandkasten-[A-Za-z0-9]{6}$/.test(name))
}

/** A repository behind a real git server, `app.git`, which requires the token. */
export class GitServer {
  readonly token = 'ghp_s3cret+/=token'
  readonly requests: string[] = []
  /** If it returns a text, the server responds with 500 and that text. */
  answer: ((request: IncomingMessage) => string | undefined) | undefined
  url = ''
  readonly #origin = tempFolder('origin')
  readonly #server = createServer(async (request, response) => {
    const authorization = request.headers.authorization ?? ''
    this.requests.push(authorization)
    const body = this.answer?.(request)
    if (body !== undefined) return response.writeHead(500, { 'content-type': 'text/plain' }).end(body)
    if (authorization !== this.authorization) {
      return response
        .writeHead(401, { 'www-authenticate': 'Basic realm="git"' })
        .end(`wrong token: ${authorization}`)
    }
    const { pathname, search } = new URL(request.url!, 'http://x')
    const env = {
      ...process.env,
      GIT_PROJECT_ROOT: this.#origin,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      REMOTE_ADDR: '127.0.0.1',
    }
    const backend = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
    request.pipe(backend.stdin)
    const chunks: Buffer[] = []
    for await (const chunk of backend.stdout) chunks.push(chunk)
    const all = Buffer.concat(chunks)
    const end = all.indexOf('\r\n\r\n')
    for (const line of all.subarray(0, end).toString().split('\r\n')) {
      const [name, value] = line.split(': ')
      if (name?.toLowerCase() === 'status') response.statusCode = Number.parseInt(value!, 10)
      else response.setHeader(name!, value!)
    }
    response.end(all.subarray(end + 4))
  })

  /** Two commits on `main`, and `dev` at the first. */
  static async start(): Promise<GitServer> {
    const started = new GitServer()
    const source = repository({ 'readme.md': 'hello' })
    git(source, 'commit', '-q', '--allow-empty', '-m', 'second')
    git(source, 'branch', 'dev', 'HEAD~1')
    git(started.#origin, 'clone', '-q', '--bare', source, 'app.git')
    await new Promise<void>((resolve) => started.#server.listen(0, '127.0.0.1', resolve))
    started.url = `http://127.0.0.1:${(started.#server.address() as AddressInfo).port}/app.git`
    return started
  }

  get authorization(): string {
    return `Basic ${Buffer.from(`x-access-token:${this.token}`).toString('base64')}`
  }

  stop(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}
