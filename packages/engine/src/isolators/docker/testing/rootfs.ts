/** A small image from this machine's files, for tests: a shell and a few programs with their libraries. */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type Docker from 'dockerode'

export async function importRootfs(
  docker: Docker,
  name: string,
  changes: readonly string[] = [],
  programs: readonly string[] = ['sh', 'cat', 'true'],
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'rootfs-'))
  try {
    for (const each of ['bin', 'dev', 'etc', 'proc', 'sys', 'tmp', 'run'])
      mkdirSync(join(folder, each), { mode: 0o755 })
    chmodSync(folder, 0o755)
    for (const program of programs) {
      const file = realpathSync(`/bin/${program}`)
      put(file, join(folder, 'bin', program))
      const libraries = execFileSync('ldd', [file], { encoding: 'utf8' }).matchAll(/(\/\S+) \(0x/g)
      for (const [, library] of libraries) put(realpathSync(library!), join(folder, library!))
    }
    const tar = spawn('tar', ['-C', folder, '--owner=0', '--group=0', '-c', '.'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const answer = await docker.importImage(tar.stdout, { repo: name, changes: [...changes] })
    let text = ''
    for await (const chunk of answer) text += String(chunk)
    if (text.includes('"error"')) throw new Error(text)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function put(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true, mode: 0o755 })
  copyFileSync(from, to)
  chmodSync(to, 0o755)
}
