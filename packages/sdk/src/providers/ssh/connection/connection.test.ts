import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxError } from '../../../errors.ts'
import type { SshProviderOptions } from '../index.ts'
import { keygen, sshdProgram, startSshd, type TestSshd } from '../test-helper.ts'

const banner = path.join(tmpdir(), `sandkasten-banner-${process.pid}`)

describe.skipIf(!sshdProgram)('connecting', () => {
  let sshd: TestSshd
  beforeAll(async () => {
    sshd = await startSshd({ config: ['Subsystem sftp internal-sftp', `Banner ${writeBanner()}`] })
  })
  afterAll(async () => {
    await sshd[Symbol.asyncDispose]()
    rmSync(banner, { force: true })
  })

  const failure = async (work: Promise<unknown>): Promise<SandboxError> => {
    const error = await work.then(
      () => undefined,
      (error) => error as SandboxError,
    )
    expect(error?.name).toBe('SandboxError')
    return error!
  }

  it('refuses an unknown host, and explains how to add it', async () => {
    const empty = path.join(sshd.folder, 'empty')
    writeFileSync(empty, '')
    const error = await failure(sshd.provider({ knownHosts: empty }).list())
    expect(error.code).toBe('forbidden')
    expect(error.retryable).toBe(false)
    const shown = execFileSync('ssh-keygen', ['-lf', sshd.hostKeyFile], { encoding: 'utf8' }).split(' ')[1]!
    expect(error.message).toContain(shown)
    expect(error.hint).toContain(`ssh-keyscan -p ${sshd.port} 127.0.0.1 >> ${empty}`)
    expect(error.details.reason).toBe('host_key_unknown')
    // The host is refused before the client sends the account name.
    expect(await sshd.provider({ knownHosts: empty, hostKey: shown }).list()).toEqual([])
    expect(await sshd.provider({ knownHosts: empty, acceptUnknownHost: true }).list()).toEqual([])
  })

  it('refuses a changed host key even with acceptUnknownHost', async () => {
    const other = path.join(sshd.folder, 'other')
    keygen(other, 'ed25519')
    const file = path.join(sshd.folder, 'changed')
    writeFileSync(file, `[127.0.0.1]:${sshd.port} ${readFileSync(`${other}.pub`, 'utf8')}`)
    for (const more of [{}, { acceptUnknownHost: true }]) {
      const error = await failure(sshd.provider({ knownHosts: file, ...more }).list())
      expect([error.code, error.details.reason]).toEqual(['forbidden', 'host_key_changed'])
      expect(error.message).toContain('HAS CHANGED')
    }
    const named = await failure(sshd.provider({ hostKey: 'SHA256:something' }).list())
    expect(named.details.reason).toBe('host_key_changed')
  })

  it('decrypts a key with its passphrase, and reports a wrong passphrase before it connects', async () => {
    const file = path.join(sshd.folder, 'locked')
    keygen(file, 'ed25519', 'correct horse')
    appendFileSync(path.join(sshd.folder, 'authorized_keys'), readFileSync(`${file}.pub`))
    const before = sshd.connections()
    for (const passphrase of [undefined, 'wrong horse']) {
      const error = await failure(sshd.provider({ privateKeyPath: file, passphrase }).list())
      expect(error.code).toBe('unauthenticated')
      expect(JSON.stringify([error.message, error.hint, error.stack])).not.toContain('horse')
    }
    expect((await failure(sshd.provider({ privateKeyPath: '/no/such/key' }).list())).code).toBe(
      'unauthenticated',
    )
    expect(
      (await failure(sshd.provider({ privateKey: 'no key', privateKeyPath: undefined as never }).list()))
        .code,
    ).toBe('unauthenticated')
    expect(await sshd.provider({ privateKeyPath: file, passphrase: 'correct horse' }).list()).toEqual([])
    expect(sshd.connections()).toBeGreaterThan(before)
  })

  it('uses the key that an agent holds', async () => {
    const socket = path.join(sshd.folder, 'agent.sock')
    const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: ['ignore', 'pipe', 'ignore'] })
    try {
      await once(agent.stdout!, 'data')
      execFileSync('ssh-add', ['-q', sshd.keyFile], {
        env: { ...process.env, SSH_AUTH_SOCK: socket },
        stdio: 'ignore',
      })
      const options = { privateKeyPath: undefined as never, agent: socket }
      expect(await sshd.provider(options).list()).toEqual([])
    } finally {
      agent.kill()
    }
    const gone = await failure(
      sshd.provider({ privateKeyPath: undefined as never, agent: `${socket}.none` }).list(),
    )
    expect(gone.code).toBe('unauthenticated')
  })

  describe('without a key in its options', () => {
    /** The output of a program that runs with this home and these variables. The provider looks for the account's keys there. */
    const listed = async (env: Record<string, string>, more: Partial<SshProviderOptions> = {}) => {
      const { privateKeyPath: _, ...options } = sshd.options(more)
      const module = new URL('../index.ts', import.meta.url).href
      const code = `const { SshProvider } = await import(${JSON.stringify(module)})
        const provider = new SshProvider(${JSON.stringify(options)})
        console.log(await provider.list().then((list) => list.length, ({ code, message }) => code + ' ' + message))
        await provider.close()`
      const { SSH_AUTH_SOCK: __, ...inherited } = process.env
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--conditions=sandkasten-source', '--input-type=module', '-e', code],
        { env: { ...inherited, ...env } },
      )
      return stdout.trim()
    }
    const home = (name: string, ...keys: Array<[name: string, file: string]>) => {
      const folder = path.join(sshd.folder, name)
      mkdirSync(path.join(folder, '.ssh'), { recursive: true })
      for (const [key, file] of keys) writeFileSync(path.join(folder, '.ssh', key), readFileSync(file))
      return folder
    }
    const stranger = () => {
      const file = path.join(sshd.folder, `stranger-${Math.random()}`)
      keygen(file, 'ed25519')
      return file
    }

    it('offers the account’s keys one after the other', async () => {
      expect(await listed({ HOME: home('one', ['id_rsa', sshd.keyFile]) })).toBe('0')
      const two = home('two', ['id_ed25519', stranger()], ['id_ecdsa', sshd.keyFile])
      expect(await listed({ HOME: two })).toBe('0')
      expect(await listed({ HOME: home('none') })).toMatch(/^unauthenticated No private key was found/)
    })

    it('offers the account’s keys when the agent has no key or is not running', async () => {
      const HOME = home('three', ['id_ed25519', sshd.keyFile])
      const socket = path.join(sshd.folder, 'empty.sock')
      const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: ['ignore', 'pipe', 'ignore'] })
      try {
        await once(agent.stdout!, 'data')
        expect(await listed({ HOME, SSH_AUTH_SOCK: socket })).toBe('0')
        expect(await listed({ HOME: home('four'), SSH_AUTH_SOCK: socket })).toMatch(
          /^unauthenticated .* refused/,
        )
      } finally {
        agent.kill()
      }
      expect(await listed({ HOME, SSH_AUTH_SOCK: `${socket}.none` })).toBe('0')
      expect(await listed({ HOME: home('five'), SSH_AUTH_SOCK: `${socket}.none` })).toMatch(
        /^unauthenticated The ssh-agent at .* could not be used/,
      )
    })
  })

  it('pins the first key of an unconfirmed host', async () => {
    await using host = await startSshd()
    const provider = host.provider({ knownHosts: path.join(host.folder, 'none'), acceptUnknownHost: true })
    expect(await provider.list()).toEqual([])
    const file = path.join(host.folder, 'host')
    for (const old of [file, `${file}.pub`]) rmSync(old)
    keygen(file, 'ed25519')
    expect(await provider.list()).toEqual([])
    await provider.close()
    const error = await failure(provider.list())
    expect([error.code, error.details.reason]).toEqual(['forbidden', 'host_key_changed'])
    // The pinned key belongs to one provider object.
    expect(await host.provider({ knownHosts: '/none', acceptUnknownHost: true }).list()).toEqual([])
  })

  it('reports a refused account', async () => {
    const file = path.join(sshd.folder, 'stranger')
    keygen(file, 'ed25519')
    const error = await failure(sshd.provider({ privateKeyPath: file }).create())
    expect([error.code, error.retryable]).toEqual(['unauthenticated', false])
    expect((await failure(sshd.provider({ username: 'nobody-of-that-name' }).create())).code).toBe(
      'unauthenticated',
    )
    expect(await sshd.provider({ privateKeyPath: file }).healthCheck()).toBe(false)
  })

  it('reports a host that is down, is not an SSH server, or does not answer', async () => {
    const closed = createServer()
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
    const { port } = closed.address() as { port: number }
    await new Promise((resolve) => closed.close(resolve))
    const down = await failure(sshd.provider({ port }).create())
    expect([down.code, down.details.errno, down.retryable]).toEqual(['unavailable', 'ECONNREFUSED', true])

    const web = createServer((socket) =>
      socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n<html>'),
    )
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
    expect(
      (await failure(sshd.provider({ port: (web.address() as { port: number }).port }).create())).code,
    ).toBe('unavailable')
    web.close()

    sshd.mute(true)
    const silent = await failure(sshd.provider({ connectTimeoutMs: 300 }).create())
    sshd.mute(false)
    expect([silent.code, silent.hint]).toEqual(['unavailable', expect.stringContaining('connectTimeoutMs')])
  })

  it('does not keep an idle process alive', async () => {
    const module = new URL('../index.ts', import.meta.url).href
    const code = `const { SshProvider } = await import(${JSON.stringify(module)})
      const provider = new SshProvider(${JSON.stringify(sshd.options())})
      const sandbox = await provider.create()
      console.log((await sandbox.runCommand({ cmd: 'echo', args: ['ran'] })).stdout)
      await sandbox.getUrl(8080)
      await sandbox.destroy()`
    const child = spawn(
      process.execPath,
      ['--conditions=sandkasten-source', '--input-type=module', '-e', code],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    let printed = ''
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    const [status] = await once(child, 'exit')
    expect([status, printed.trim()]).toEqual([0, 'ran'])
  })

  it('opens another connection when the session limit is reached', async () => {
    await using few = await startSshd({ config: ['Subsystem sftp internal-sftp', 'MaxSessions 3'] })
    const sandbox = await few.provider().create()
    const results = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        sandbox.runCommand({ cmd: 'sh', args: ['-c', `sleep 0.3; echo ${index}`] }),
      ),
    )
    expect(results.map(({ stdout }) => stdout.trim())).toEqual(results.map((_, index) => String(index)))
    expect(few.connections()).toBeGreaterThan(2)
    await sandbox.destroy()
  })
})

function writeBanner(): string {
  writeFileSync(banner, 'Welcome!\nstarted 1 0\nx 1 0 - 0 0\n')
  return banner
}
