import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { findProgram } from '../machine.ts'

/** A root file system just large enough for `sh -c true`, copied from this machine. */
export function makeRootfs(folder: string): string {
  for (const name of ['bin', 'dev', 'etc', 'proc', 'sys', 'tmp', 'run', 'workspace'])
    mkdirSync(join(folder, name), { recursive: true, mode: 0o755 })
  chmodSync(join(folder, 'tmp'), 0o1777)
  writeFileSync(join(folder, 'etc/passwd'), 'root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/workspace:/bin/sh\n')
  writeFileSync(join(folder, 'etc/group'), 'root:x:0:\nuser:x:1000:\n')
  for (const name of ['sh', 'sleep', 'cat', 'true']) {
    const program = realpathSync(findProgramFile(name))
    put(program, join(folder, 'bin', name))
    for (const library of librariesOf(program)) put(realpathSync(library), join(folder, library))
  }
  return folder
}

/** `true` is a shell builtin, so `command -v` would not return a file. */
function findProgramFile(name: string): string {
  return findProgram(`/bin/${name}`) ?? `/usr/bin/${name}`
}

function librariesOf(program: string): string[] {
  const text = execFileSync('ldd', [program], { encoding: 'utf8' })
  return [...text.matchAll(/(\/\S+) \(0x/g)].map((match) => match[1]!)
}

function put(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true, mode: 0o755 })
  copyFileSync(from, to)
  chmodSync(to, 0o755)
}
