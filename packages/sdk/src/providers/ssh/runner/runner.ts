import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { SandboxError } from '../../../errors.ts'
import { randomId } from '../../../shared/ids.ts'
import type { SshPool } from '../connection/pool.ts'
import { openFlags, sftpCalls } from '../connection/sftp.ts'
import { nameOf } from '../errors.ts'
import type { Agent } from '../guest/agent.ts'
import type { SshSettings } from '../options.ts'
import { loadRunnerClient } from './runner-client.ts'

/** Whether new sandboxes use our runner, and if not, why. */
export interface SshRunnerUse {
  readonly used: boolean
  readonly why?: string
}

/**
 * Our runner's binary on the host. It is uploaded once, named by its hash, and tested. If the host cannot execute it
 * (another processor, a folder mounted `noexec`), the agent's script supervises programs instead.
 */
export class SshRunner {
  readonly #agent: Agent
  readonly #pool: SshPool
  readonly #settings: SshSettings
  #ready: Promise<Ready> | undefined

  constructor(agent: Agent, pool: SshPool, settings: SshSettings) {
    this.#agent = agent
    this.#pool = pool
    this.#settings = settings
  }

  /** The hash in the binary's name, as the agent takes it; `-` without a runner. */
  async word(): Promise<string> {
    return (await this.#prepare()).word
  }

  async use(): Promise<SshRunnerUse> {
    const { word, why } = await this.#prepare()
    return word === '-' ? { used: false, why } : { used: true }
  }

  /** The host cannot execute the runner: warn once, and do not try again. */
  failed(why: string): Ready {
    const ready = { word: '-', why }
    this.#ready = Promise.resolve(ready)
    process.emitWarning(`The runner is not used on ${nameOf(this.#settings)}: ${why}.`, {
      type: 'SandkastenWarning',
      code: 'SANDKASTEN_SSH_RUNNER',
      detail:
        'A shell script supervises programs instead. Pass { runner: false } to SshProvider to hide this warning.',
    })
    return ready
  }

  #prepare(): Promise<Ready> {
    this.#ready ??= this.#install().catch((error) => {
      this.#ready = undefined
      throw error
    })
    return this.#ready
  }

  async #install(): Promise<Ready> {
    const { root, machine } = await this.#agent.facts()
    const file = binaryFor(this.#settings.runner, machine)
    if (file === undefined) return { word: '-', why: 'this machine has no binary of the runner' }
    const missing = await loadRunnerClient().then(
      () => undefined,
      (error: unknown) => error,
    )
    if (missing) {
      // Fail only if the caller named a binary.
      if (this.#settings.runner === undefined && SandboxError.is(missing, 'sdk_missing'))
        return { word: '-', why: missing.message }
      throw missing
    }
    const binary = await readFile(file).catch((cause) => {
      throw new SandboxError('invalid_argument', `The runner ${file} cannot be read.`, {
        provider: 'ssh',
        hint: 'Check the option `runner`, or SANDKASTEN_RUNNER; pass `runner: false` to use no runner.',
        cause,
      })
    })
    const made = machineOf(binary)
    if (made !== machine)
      return this.failed(`the binary is for ${made ?? 'another system'}, and the host is ${machine}`)
    const word = createHash('sha256').update(binary).digest('hex').slice(0, 16)
    await this.#upload(`${root}/bin/runner-${word}`, binary)
    const said = await this.#agent.call('try', [word], {})
    return /^ok$/m.test(said)
      ? { word }
      : this.failed(`the host cannot run it (${said.trim().slice(0, 200)})`)
  }

  async #upload(file: string, binary: Buffer): Promise<void> {
    await this.#pool.withSftp(async (raw) => {
      const sftp = sftpCalls(raw)
      // The name is the hash of the content and the file is renamed into place, so an existing file is complete.
      if ((await sftp.stat(file).catch(() => undefined))?.size === binary.length) return
      const draft = `${file}.${randomId(8)}`
      const handle = await sftp.open(draft, openFlags.write | openFlags.create | openFlags.exclusive, 0o700)
      try {
        const starts = Array.from({ length: Math.ceil(binary.length / PIECE) }, (_, index) => index * PIECE)
        await Promise.all(starts.map((at) => sftp.write(handle, binary.subarray(at, at + PIECE), at)))
        await sftp.fchmod(handle, 0o700)
      } finally {
        await sftp.close(handle)
      }
      await sftp.replace(draft, file)
    })
  }
}

interface Ready {
  readonly word: string
  readonly why?: string
}

const PIECE = 32 * 1024

/** The named binary, else the platform package that @sandkasten/engine brings, if it is installed. */
function binaryFor(named: string | false | undefined, machine: string): string | undefined {
  if (named !== undefined) return named || undefined
  const arch = Object.entries(machines).find(([, [name]]) => name === machine)?.[1][1]
  try {
    const engine = createRequire(import.meta.url).resolve('@sandkasten/engine/package.json')
    return createRequire(engine).resolve(`@sandkasten/runner-linux-${arch}/runner`)
  } catch {
    return undefined
  }
}

/** ELF machine numbers, with the processor's names in uname and in Node. */
const machines: Readonly<Record<number, [string, string]>> = {
  62: ['x86_64', 'x64'],
  183: ['aarch64', 'arm64'],
}

function machineOf(binary: Buffer): string | undefined {
  if (binary.length < 64 || binary.readUInt32BE(0) !== 0x7f454c46) return undefined
  return machines[binary.readUInt16LE(18)]?.[0] ?? 'another processor'
}
