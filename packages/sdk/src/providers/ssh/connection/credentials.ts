import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { SandboxError } from '../../../errors.ts'
import { errnoOf } from '../../../folder/errors.ts'
import { nameOf } from '../errors.ts'
import type { SshSettings } from '../options.ts'
import type { HostKeyAlgorithm, Ssh2, Ssh2Credential } from '../sdk.ts'
import {
  fingerprint,
  isNamed,
  judge,
  type KnownHost,
  keyType,
  linesFor,
  parseKnownHosts,
  preferredAlgorithms,
} from './known-hosts.ts'

/** The credentials to try, in order: the given key and then the agent's; without a given key, the agent's and then the account's. */
export async function credentialsOf(ssh2: Ssh2, settings: SshSettings): Promise<Ssh2Credential[]> {
  const { username, privateKey, privateKeyPath, passphrase, agent } = settings
  const shown = (key: Buffer): Ssh2Credential => ({
    type: 'publickey',
    username,
    key,
    passphrase,
  })
  const agents: Ssh2Credential[] = agent === undefined ? [] : [{ type: 'agent', username, agent }]
  if (privateKey !== undefined || privateKeyPath !== undefined) {
    const key = privateKey === undefined ? await keyFile(privateKeyPath!) : Buffer.from(privateKey)
    checkKey(ssh2, key, passphrase, privateKeyPath)
    return [shown(key), ...agents]
  }
  const keys: Ssh2Credential[] = []
  for (const name of ['id_ed25519', 'id_ecdsa', 'id_rsa']) {
    const key = await readFile(path.join(homedir(), '.ssh', name)).catch(() => undefined)
    if (key && !(ssh2.utils.parseKey(key, passphrase) instanceof Error)) keys.push(shown(key))
  }
  if (agents.length + keys.length > 0) return [...agents, ...keys]
  throw new SandboxError('unauthenticated', 'No private key was found for the host.', {
    provider: 'ssh',
    hint: 'Start an ssh-agent (SSH_AUTH_SOCK), or pass `privateKeyPath`, with `passphrase` if it has one.',
  })
}

async function keyFile(file: string): Promise<Buffer> {
  return readFile(file).catch((cause) => {
    throw new SandboxError('unauthenticated', `The private key ${file} cannot be read (${errnoOf(cause)}).`, {
      provider: 'ssh',
      hint: 'Correct `privateKeyPath`.',
      cause,
    })
  })
}

/** Checks the key before connecting. Drops the parser's error, because it may contain parts of the key. */
function checkKey(ssh2: Ssh2, key: Buffer, passphrase: string | undefined, file = '`privateKey`'): void {
  if (!(ssh2.utils.parseKey(key, passphrase) instanceof Error)) return
  const message =
    passphrase === undefined
      ? `${file} is not a private key, or it needs a passphrase.`
      : `${file} cannot be decrypted: the passphrase is wrong, or it is not a private key.`
  throw new SandboxError('unauthenticated', message, {
    provider: 'ssh',
    hint: 'Check `passphrase` and the key.',
  })
}

/** The accepted key of an unknown host. It must not change while the provider is in use. */
export interface PinnedKey {
  key?: Buffer
}

export class HostCheck {
  readonly #settings: SshSettings
  readonly #pinned: PinnedKey
  readonly #lines: readonly KnownHost[]
  refusal: SandboxError | undefined

  static async read(settings: SshSettings, pinned: PinnedKey): Promise<HostCheck> {
    const texts = await Promise.all(
      settings.knownHosts.map((file) =>
        readFile(file, 'utf8').catch((cause) => {
          if (errnoOf(cause) === 'ENOENT') return ''
          throw new SandboxError('forbidden', `${file} cannot be read, so the host key cannot be verified.`, {
            provider: 'ssh',
            hint: 'Make it readable, or pass `knownHosts` or `hostKey`.',
            cause,
          })
        }),
      ),
    )
    const lines = linesFor(texts.flatMap(parseKnownHosts), settings.host, settings.port)
    return new HostCheck(settings, pinned, lines)
  }

  private constructor(settings: SshSettings, pinned: PinnedKey, lines: readonly KnownHost[]) {
    this.#settings = settings
    this.#pinned = pinned
    this.#lines = lines
  }

  get algorithms(): HostKeyAlgorithm[] | undefined {
    return this.#settings.hostKeys.length > 0 ? undefined : preferredAlgorithms(this.#lines)
  }

  accepts(key: Buffer): boolean {
    const { hostKeys, acceptUnknownHost } = this.#settings
    if (hostKeys.length > 0) {
      if (isNamed(hostKeys, key)) return true
      this.refusal = this.#refuse('changed', key, 'It does not match `hostKey`.')
      return false
    }
    const verdict = judge(this.#lines, key)
    if (verdict === 'known') return true
    if (verdict === 'unknown' && acceptUnknownHost) {
      this.#pinned.key ??= key
      if (this.#pinned.key.equals(key)) return true
      this.refusal = this.#refuse('changed', key, 'It differs from the key accepted before.')
      return false
    }
    this.refusal = this.#refuse(verdict, key)
    return false
  }

  #refuse(verdict: 'unknown' | 'changed' | 'revoked' | 'known', key: Buffer, more = ''): SandboxError {
    const { host, port, knownHosts } = this.#settings
    const shown = `${keyType(key)} ${fingerprint(key)}`
    const [message, hint] =
      verdict === 'unknown'
        ? [
            `The host ${nameOf(this.#settings)} is not in known_hosts. Its key is ${shown}.`,
            `Compare it with the output of \`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\` on the host. Then run \`ssh-keyscan -p ${port} ${host} >> ${knownHosts[0]}\`, or pass hostKey: '${fingerprint(key)}'.`,
          ]
        : verdict === 'revoked'
          ? [
              `REFUSED: the key ${shown} of ${nameOf(this.#settings)} is revoked.`,
              'Another machine may impersonate the host.',
            ]
          : [
              `REFUSED: THE KEY OF ${nameOf(this.#settings)} HAS CHANGED. The new key is ${shown}.${more && ` ${more}`}`,
              `Another machine may impersonate the host. If the host was reinstalled and its administrator confirms the fingerprint, run \`ssh-keygen -R '${port === 22 ? host : `[${host}]:${port}`}'\`, then add the new key.`,
            ]
    return new SandboxError('forbidden', message, {
      provider: 'ssh',
      hint,
      details: { reason: `host_key_${verdict}`, keyType: keyType(key), fingerprint: fingerprint(key) },
    })
  }
}
