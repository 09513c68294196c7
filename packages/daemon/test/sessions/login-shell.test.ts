import { SandboxClient } from '@sandkasten/sdk/client'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'

/** A session's shell reads the profile of the sandbox's user, through all layers. */

const reason = await isolationMissing()

describe.skipIf(reason)(`login shells of sessions${reason ? ` (skipped: ${reason})` : ''}`, () => {
  let daemon: TestDaemon
  let client: SandboxClient

  const start = (defaults: object = {}) => startTestDaemon({ isolator: 'oci', defaults })
  beforeAll(async () => {
    daemon = await start()
    client = new SandboxClient({ url: daemon.daemon.url, apiKey: daemon.key })
  })
  afterAll(() => daemon?.stop())

  /** Creates a session whose user has these files. */
  async function sessionWith(files: Record<string, string>, of = client) {
    const session = await of.createSession()
    const { stdout } = await session.run('sh', { args: ['-c', 'echo "$HOME"'] })
    for (const [name, text] of Object.entries(files)) await session.write(`${stdout.trim()}/${name}`, text)
    return session
  }

  it('by default they read profile and rc', async () => {
    const session = await sessionWith({
      '.bash_profile': 'export A=profile\n. ~/.bashrc\n',
      '.bashrc': 'alias ll="echo rc"\n',
    })
    const result = await session.exec('echo $A; ll; shopt -q login_shell && echo login')
    expect(result).toMatchObject({ output: 'profile\nrc\nlogin\n' })
    expect(result).not.toHaveProperty('warning')
    await session.destroy()
  })

  it('a shell without login is plain', async () => {
    const session = await sessionWith({ '.bash_profile': 'export A=profile\n' })
    await session.openShell('main', { login: false })
    expect((await session.exec('echo "[$A]"')).output).toBe('[]\n')
    await session.openShell('second', { login: true })
    expect((await session.exec('echo "[$A]"', { shell: 'second' })).output).toBe('[profile]\n')
    await session.destroy()
  })

  it('a profile that ends the shell is skipped, with a warning in the first result', async () => {
    const session = await sessionWith({ '.bash_profile': 'exit 1\n' })
    expect(await session.exec('echo works')).toMatchObject({
      output: 'works\n',
      shellRestarted: false,
      warning: expect.stringContaining('ended the shell'),
    })
    expect(await session.exec('echo works')).not.toHaveProperty('warning')
    const sandbox = await new DaemonProvider({ url: daemon.daemon.url, apiKey: daemon.key }).get(session.id)
    const shell = await sandbox.openShell({ name: 'other', login: true })
    expect((await shell.exec('true')).warning).toContain('ended the shell')
    expect((await (await sandbox.openShell({ login: false })).exec('true')).warning).toBeUndefined()
    await session.destroy()
  })

  it('a setting makes all of them plain', async () => {
    const other = await start({ login_shell: false })
    const plain = new SandboxClient({ url: other.daemon.url, apiKey: other.key })
    try {
      const session = await sessionWith({ '.bash_profile': 'export A=profile\n' }, plain)
      expect((await session.exec('echo "[$A]"')).output).toBe('[]\n')
      await session.destroy()
    } finally {
      await other.stop()
    }
  })
})
