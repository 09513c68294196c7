import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

export interface PackageRegistry extends AsyncDisposable {
  readonly port: number
  /** Packages whose content was downloaded. */
  readonly downloads: string[]
}

const require = createRequire(import.meta.url)
const program = `opencode-linux-${process.arch}`

/** A registry of npm with the packages of opencode that are installed here, and no other. `url`: as clients see it. */
export async function startPackageRegistry(url: string): Promise<PackageRegistry> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sk-registry-'))
  const folders: Record<string, string> = {
    'opencode-ai': publishedPackage(folder),
    [program]: folderOf(program, createRequire(require.resolve('opencode-ai/package.json'))),
  }
  const downloads: string[] = []
  const server = createServer((request, response) => {
    const [, name = '', file] = new URL(request.url ?? '/', 'http://registry').pathname.split('/')
    const source = folders[name]
    if (source === undefined) return response.writeHead(404).end('{}')
    if (file === undefined) {
      const { version, ...manifest } = JSON.parse(readFileSync(path.join(source, 'package.json'), 'utf8'))
      const one = { name, version, ...manifest, dist: { tarball: `${url}/${name}/package.tgz` } }
      response.writeHead(200, { 'content-type': 'application/json' })
      return response.end(
        JSON.stringify({ name, 'dist-tags': { latest: version }, versions: { [version]: one } }),
      )
    }
    downloads.push(name)
    const tar = spawn('tar', ['-c', '--transform=s,^[.],package,', '-C', source, '.'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    response.writeHead(200, { 'content-type': 'application/octet-stream' })
    tar.stdout.pipe(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    downloads,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** As it is on npm: the script after its installation replaces this file by the program. */
function publishedPackage(folder: string): string {
  const copy = path.join(folder, 'opencode-ai')
  const file = path.join(copy, 'bin/opencode.exe')
  cpSync(folderOf('opencode-ai', require), copy, {
    recursive: true,
    filter: (source) => !source.endsWith('opencode.exe'),
  })
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, '#!/bin/sh\necho "opencode is not installed" >&2\nexit 1\n')
  chmodSync(file, 0o755)
  return copy
}

function folderOf(name: string, from: NodeJS.Require): string {
  const folder = path.dirname(from.resolve(`${name}/package.json`))
  if (!existsSync(folder)) throw new Error(`${name} is not installed: node scripts/suites.ts opencode`)
  return folder
}
