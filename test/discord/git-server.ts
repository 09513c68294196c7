import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

export interface GitServer extends AsyncDisposable {
  readonly port: number
  /** A clean clone of what the server has. Returns its folder. */
  clone(name: string): string
  git(folder: string, ...args: string[]): string
}

/** Serves `/app.git`, a repository with one commit of `file.txt`, as git’s files over HTTP. */
export async function startGitServer(): Promise<GitServer> {
  const root = await mkdtemp(path.join(tmpdir(), 'sk-git-'))
  const git: GitServer['git'] = (folder, ...args) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      cwd: path.join(root, folder),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  await mkdir(path.join(root, 'first'))
  await writeFile(path.join(root, 'first/file.txt'), 'before\n')
  git('first', 'init', '-q', '-b', 'main')
  git('first', 'add', '.')
  git('first', 'commit', '-qm', 'first')
  git('.', 'clone', '-q', '--bare', 'first', 'app.git')
  git('app.git', 'update-server-info')
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const file = path.join(root, path.posix.normalize(pathname))
    createReadStream(file)
      .on('error', () => response.writeHead(404).end())
      .pipe(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    clone(name) {
      git('.', 'clone', '-q', 'app.git', name)
      return path.join(root, name)
    },
    git,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await rm(root, { recursive: true, force: true })
    },
  }
}
