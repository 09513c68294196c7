import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'

export function machineFacts(): string[] {
  const gib = (totalmem() / 1024 ** 3).toFixed(1)
  return [
    `${availableParallelism()} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ${gib} GiB, Linux ${release()}, ${distribution()}`,
    `node ${process.version}, ${versionOf('crun')}, ${versionOf('runc')}, ${versionOf('dockerd')}`,
    `load before: ${loadavg()
      .map((load) => load.toFixed(2))
      .join(' ')}`,
  ]
}

export function findProgram(name: string): string | undefined {
  try {
    return execFileSync('/bin/sh', ['-c', 'command -v "$0"', name], { encoding: 'utf8' }).trim()
  } catch {
    return undefined
  }
}

function versionOf(program: string): string {
  if (!findProgram(program)) return `no ${program}`
  const text = execFileSync(program, ['--version'], { encoding: 'utf8' })
  return `${program} ${/version:? ([^\s,]+)/.exec(text)?.[1] ?? 'of unknown version'}`
}

function distribution(): string {
  try {
    return /^PRETTY_NAME="?([^"\n]+)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? 'unknown'
  } catch {
    return 'unknown'
  }
}
