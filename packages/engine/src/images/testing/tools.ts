/** Programs that `scripts/prepare.ts` downloads for the tests, and a registry on this machine's loopback. */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const fetched = fileURLToPath(new URL('../../../../../node_modules/.cache/sandkasten-tools', import.meta.url))

export function findTool(name: string): string | undefined {
  const folders = [
    ...(process.env.PATH ?? '').split(delimiter),
    join(fetched, 'usr/bin'),
    join(fetched, 'bin'),
  ]
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

/** Only the downloaded program: the machine's own differs. */
export function fetchedTool(name: string): string | undefined {
  return [join(fetched, 'usr/bin', name), join(fetched, 'bin', name)].find((path) => existsSync(path))
}

/** A static busybox, which works without libraries. The downloaded program is static. The machine's own may not be. */
export function staticBusybox(): string | undefined {
  const places = [join(fetched, 'bin/busybox'), findTool('busybox')]
  return places.find((path) => path && existsSync(path) && isStatic(readFileSync(path)))
}

/** Whether a 64-bit ELF program has no PT_INTERP header. */
function isStatic(elf: Buffer): boolean {
  const [offset, size, count] = [
    Number(elf.readBigUInt64LE(0x20)),
    elf.readUInt16LE(0x36),
    elf.readUInt16LE(0x38),
  ]
  return Array.from({ length: count }, (_, index) => elf.readUInt32LE(offset + index * size)).every(
    (type) => type !== 3,
  )
}

export interface Registry extends AsyncDisposable {
  /** `127.0.0.1:port` */
  readonly host: string
  /** The storage folder of the registry. */
  readonly data: string
}

/** Debian's docker-registry on a free port. With `htpasswd`, it requires authentication. */
export async function startRegistry(program: string, options: { htpasswd?: string } = {}): Promise<Registry> {
  const folder = mkdtempSync(join(tmpdir(), 'registry-'))
  const data = join(folder, 'data')
  writeFileSync(join(folder, 'htpasswd'), options.htpasswd ?? '')
  const auth = `auth:\n  htpasswd:\n    realm: test\n    path: ${join(folder, 'htpasswd')}\n`
  writeFileSync(
    join(folder, 'config.yml'),
    `version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: ${data}\nhttp:\n  addr: 127.0.0.1:0\n${options.htpasswd ? auth : ''}`,
  )
  const child = spawn(program, ['serve', join(folder, 'config.yml')], { stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const host = await new Promise<string>((resolve, reject) => {
    let text = ''
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      const found = /listening on (127\.0\.0\.1:\d+)/.exec(text)
      if (found) resolve(found[1]!)
    })
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`the registry ended: ${text}`)))
  })
  return {
    host,
    data,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
