/** Installs packages that this machine lacks, after explaining which and why. On a terminal it asks first. */
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import {
  findRust,
  isAtLeast,
  type RustSearch,
  type SearchOptions,
} from '../packages/engine/src/runner/rust.ts'
import { candidateOf, installPackages, mayUseApt, replacedBy, updateLists } from './debian.ts'

/** A requirement that this machine lacks. */
export interface Missing {
  /** Debian packages that provide it; empty if Debian has no recent enough one. */
  readonly packages: readonly string[]
  /** What it is needed for. */
  readonly why: string
  /** Instructions if Debian cannot provide it. */
  readonly otherwise?: string
}

export interface InstallOptions {
  /** The command that the user typed: `npm start`. */
  readonly command: string
  /** Installs without asking. */
  readonly yes: boolean
}

/** Returns 0 even if nothing was installed: the caller checks what works. Another value means that apt-get failed. */
export async function installMissing(missing: readonly Missing[], options: InstallOptions): Promise<number> {
  for (const { why, otherwise } of missing.filter(({ packages }) => packages.length === 0))
    say(`Missing: ${why}. ${otherwise ?? ''}`)
  const wanted = missing.filter(({ packages }) => packages.length > 0)
  if (wanted.length === 0) return 0
  const packages = wanted.flatMap((one) => one.packages)
  const byHand = `apt-get install ${packages.join(' ')}`
  const list = wanted.map((one) => `  ${one.packages.join(' ').padEnd(22)} ${one.why}`).join('\n')
  if (!mayUseApt()) {
    say(`This machine lacks:\n${list}\nInstall it as root: ${byHand}`)
    return 0
  }
  const replaced = await replacedBy(packages)
  say(`${options.command} installs Debian packages that this machine lacks:\n${list}`)
  if (replaced.length > 0) say(`They replace: ${replaced.join(' ')}`)
  if (!(await isAgreed(options))) {
    say(`Not installed. This machine still lacks:\n${list}\nInstall it later: ${byHand}`)
    return 0
  }
  return installPackages(packages)
}

/** The packages for Rust, which builds the runner; undefined if this machine has it. */
export async function missingRust(options: SearchOptions = {}): Promise<Missing | undefined> {
  const found = await findRust(options)
  if (found.rust) return undefined
  const here = found.unusable.length > 0 ? `; this machine has only ${found.unusable.join(', ')}` : ''
  return {
    packages: existsSync('/usr/bin/apt-cache') ? await rustPackages(found) : [],
    why: `Rust ${found.needed} or newer, which builds the runner${here}`,
    otherwise: 'Install it with rustup: https://rustup.rs',
  }
}

/** Debian’s own cargo is often too old. Its security suite has a newer one for building browsers: `cargo-web`. */
async function rustPackages({ needed }: RustSearch): Promise<string[]> {
  const choices = [
    ['cargo-web', 'rustc-web'],
    ['cargo', 'rustc'],
  ]
  const newEnough = async () => {
    for (const packages of choices) {
      const versions = await Promise.all(packages.map(candidateOf))
      if (versions.every((version) => version !== undefined && isAtLeast(version, needed))) return packages
    }
    return undefined
  }
  const known = await newEnough()
  if (known || !mayUseApt()) return known ?? []
  await updateLists()
  return (await newEnough()) ?? []
}

async function isAgreed({ yes }: InstallOptions): Promise<boolean> {
  if (yes) return true
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    say('There is no terminal to ask on, so they are installed now.')
    return true
  }
  const answer = await ask('Install them now? [Y/n] ')
  return /^(y|yes|)$/i.test(answer.trim())
}

/** The user's reply; “n” at the end of input. Ctrl-C ends this process. */
function ask(question: string): Promise<string> {
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  return new Promise((resolve) => {
    prompt.on('SIGINT', () => process.exit(130))
    prompt.on('close', () => resolve('n'))
    prompt.question(question, (answer) => {
      resolve(answer)
      prompt.close()
    })
  })
}

/** Writes to stderr, because programs read the stdout of `npm start -- --json`. */
function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
