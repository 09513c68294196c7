/** Installs what this machine lacks, after saying what and why. On a terminal it asks first. */
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import {
  findRust,
  isAtLeast,
  type RustSearch,
  type SearchOptions,
} from '../packages/engine/src/runner/rust.ts'
import { candidateOf, installPackages, mayUseApt, replacedBy, updateLists } from './debian.ts'

/** Something that this machine lacks. */
export interface Missing {
  /** Debian’s packages that bring it; none if Debian has none that is new enough. */
  readonly packages: readonly string[]
  /** What it is for. */
  readonly why: string
  /** What to do if it cannot be installed from Debian. */
  readonly otherwise?: string
}

export interface InstallOptions {
  /** The command that the user typed: `npm start`. */
  readonly command: string
  /** Do not ask. */
  readonly yes: boolean
}

/** Returns 0 also when it was not installed: the caller finds out what works without it. Not 0: apt-get failed. */
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

/** Rust for the runner: what apt has to install for it, or undefined if this machine has it. */
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

/** The answer; “n” for the end of input. Ctrl-C ends this process. */
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

/** To stderr: what a program reads from `npm start -- --json` is on stdout. */
function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
