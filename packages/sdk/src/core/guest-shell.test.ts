import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { localCapabilities } from '../providers/local/capabilities.ts'
import { LocalDriver } from '../providers/local/driver.ts'
import type { LocalSandbox } from '../providers/local/sandbox.ts'
import { processesOf, temporaryFolder, until } from '../providers/local/test-helper.ts'
import type { CallOptions, OpenShellOptions } from '../spec/index.ts'
import { behaviours, conformance, posixCommands } from '../testing/index.ts'
import type { Checked } from './driver.ts'
import { Cut, openGuestShell } from './guest-shell.ts'
import { DriverProvider } from './provider.ts'

const root = await temporaryFolder()

/** The local provider with shells that are emulated by running programs, as on the cloud providers. */
class Programs extends LocalDriver {
  protected override handle(...args: Parameters<LocalDriver['handle']>): LocalSandbox {
    const sandbox = super.handle(...args)
    const place = { provider: 'local', root: path.join(root, 'shells') }
    return Object.assign(sandbox, {
      openShell: (options: Checked<OpenShellOptions>, call: CallOptions) =>
        openGuestShell(sandbox, place, options, call),
    })
  }
}

const provider = () =>
  new DriverProvider(new Programs({ name: 'local', root, inheritEnv: [], capabilities: localCapabilities() }))

conformance({
  title: 'conformance: shells emulated by programs',
  runner: { describe, it, afterAll },
  provider,
  reopen: provider,
  commands: posixCommands({ server: 'node' }),
  only: behaviours.filter(({ id }) => id.startsWith('shell-')).map(({ id }) => id),
  leftovers: processesOf,
})

describe('A shell emulated by programs', () => {
  it('accepts a command that is longer than an argument or a variable can be', async () => {
    const shell = await (await open()).openShell()
    const { output, exitCode } = await shell.exec(`text='${'x'.repeat(300_000)}'\necho "\${#text}"`)
    expect([output, exitCode]).toEqual(['300000\n', 0])
  })

  it('is found by its name from another handle, with its state', async () => {
    const sandbox = await open()
    await (await sandbox.openShell({ name: 'mine' })).exec('cd /; KEPT=yes')
    const found = await (await provider().get(sandbox.id)).openShell({ name: 'mine', cwd: '.' })
    expect([found.cwd, (await found.exec('echo "$KEPT"')).output]).toEqual(['/', 'yes\n'])
    expect(await found.close()).toBe(true)
  })

  it('runs commands of two handles one after the other', async () => {
    const sandbox = await open()
    const [one, two] = [await sandbox.openShell({ name: 'two' }), await sandbox.openShell({ name: 'two' })]
    const results = await Promise.all(
      [one, two, one, two].map((shell) => shell.exec('n=$((n + 1)); sleep 0.05; echo $n')),
    )
    expect(results.map(({ output }) => output).sort()).toEqual(['1\n', '2\n', '3\n', '4\n'])
  })

  it('loses no output of many short commands', async () => {
    const sandbox = await open()
    const shells = await Promise.all(Array.from({ length: 10 }, () => sandbox.openShell()))
    const outputs = await Promise.all(
      shells.flatMap((shell) => Array.from({ length: 6 }, () => shell.exec('printf whole'))),
    )
    expect(outputs.filter(({ output }) => output !== 'whole')).toEqual([])
  })

  it('lets another handle follow a command by its id, from the beginning', async () => {
    const sandbox = await open()
    const shell = await sandbox.openShell({ name: 'main' })
    const begun = Promise.withResolvers<void>()
    const command = 'echo begun; while ! test -e go; do sleep 0.02; done; echo over; exit 4'
    const running = shell.exec(command, { execId: 'mine', onOutput: () => begun.resolve() })
    await begun.promise
    const same = await sandbox.openShell({ name: 'main' })
    const following = same.attach!('mine')
    await sandbox.files.writeFile('go', '')
    const results = await Promise.all([running, following])
    expect(results.map(({ output, exitCode }) => [output, exitCode])).toEqual([
      ['begun\nover\n', 4],
      ['begun\nover\n', 4],
    ])
    await expect(same.attach!('unknown')).rejects.toMatchObject({ code: 'not_found' })
  })

  it('still works after the process that waited for a command was killed', async () => {
    const shell = await (await open()).openShell()
    const begun = Promise.withResolvers<void>()
    await shell.exec('KEPT=yes')
    const running = shell.exec('echo begun; sleep 1000000; echo more', { onOutput: () => begun.resolve() })
    running.catch(begun.reject)
    await begun.promise
    await killWith('sandkasten-end-')
    await expect(running).rejects.toMatchObject({ code: 'interrupted' })
    const next = await shell.exec('echo "$KEPT"')
    expect([next.output, next.shellRestarted]).toEqual(['yes\n', false])
  })

  it('restarts after its keeper was killed, and ends the old processes', async () => {
    const shell = await (await open()).openShell()
    const { output } = await shell.exec('echo $$')
    const lost = await shell.exec('kill -KILL $PPID; sleep 1000000')
    expect([lost.exitCode, lost.timedOut]).toEqual([137, false])
    const next = await shell.exec('echo $$')
    expect(next.shellRestarted).toBe(true)
    expect(next.output).not.toBe(output)
    await until('the old bash has ended', () => !existsSync(`/proc/${output.trim()}/stat`))
  })

  it('rejects commands of other handles after it was closed', async () => {
    const sandbox = await open()
    const [one, two] = [await sandbox.openShell({ name: 'gone' }), await sandbox.openShell({ name: 'gone' })]
    expect([await one.close(), await two.close()]).toEqual([true, false])
    const three = await sandbox.openShell({ name: 'gone' })
    const four = await sandbox.openShell({ name: 'gone' })
    await three.close()
    await expect(four.exec('echo x')).rejects.toMatchObject({ code: 'not_running' })
  })
})

describe('Cut', () => {
  it('emits everything before the mark as early as possible, however the input is split', () => {
    const bytes = new TextEncoder().encode('aab ma mark-x mark-y and more mark-y')
    for (let size = 1; size <= bytes.length; size += 1) {
      const cut = new Cut('mark-y')
      let text = ''
      for (let at = 0; at < bytes.length; at += size)
        text += new TextDecoder().decode(cut.before(bytes.subarray(at, at + size)))
      expect(text).toBe('aab ma mark-x ')
    }
    expect(new TextDecoder().decode(new Cut('mark-y').before(bytes.subarray(0, 13)))).toBe('aab ma mark-x')
    expect(new TextDecoder().decode(new Cut('mark-y').before(bytes.subarray(0, 12)))).toBe('aab ma ')
  })
})

async function open() {
  const sandbox = await provider().create({})
  // Also ends the shells, which carry the sandbox's mark.
  onTestFinished(() => sandbox.destroy().then(() => {}))
  return sandbox
}

async function killWith(text: string): Promise<void> {
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    if (words.includes(text) && words.includes(root)) process.kill(Number(pid), 'SIGKILL')
  }
}
