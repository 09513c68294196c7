import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { leftoversOf, pathWith, processesWith, sshdProgram, startSshd, usualPrograms } from './test-helper.ts'

const asRoot = process.getuid?.() === 0
/** Downloaded by `scripts/prepare.ts` if the machine has no BusyBox. */
const fetched = path.resolve(
  import.meta.dirname,
  '../../../../../node_modules/.cache/sandkasten-tools/bin/busybox',
)

/** Hosts whose programs differ from Debian's. */
describe.skipIf(!sshdProgram)('a host', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-ssh-path-'))
  chmodSync(folder, 0o755)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const without = (program: string) =>
    pathWith(
      path.join(folder, `without-${program}`),
      usualPrograms.filter((name) => name !== program),
    )

  it('names a missing required program', async () => {
    await using sshd = await startSshd({ path: without('setsid') })
    await expect(sshd.provider().create()).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('lacks setsid'),
      hint: expect.stringContaining('Install setsid'),
    })
  })

  it('without script(1): everything but terminals works, and the error explains why', async () => {
    await using sshd = await startSshd({ path: without('script') })
    const sandbox = await sshd.provider().create()
    expect((await sandbox.runCommand({ cmd: 'echo', args: ['works'] })).stdout).toBe('works\n')
    for (const cmd of [undefined, 'cat'])
      await expect(sandbox.openTerminal({ cols: 80, rows: 24, cmd })).rejects.toMatchObject({
        code: 'unsupported',
        message: expect.stringContaining('script(1)'),
        hint: expect.stringContaining('util-linux'),
      })
    await expect(sandbox.openTerminal({ cols: 80, rows: 24, cmd: 'no-such' })).rejects.toMatchObject({
      code: 'command_not_found',
    })
    await sandbox.destroy()
  })

  it('works with BusyBox, whose awk does not report signals', async (context) => {
    const found = ['/bin/busybox', fetched].find((file) => existsSync(file))
    if (found === undefined) return context.skip('BusyBox is not installed')
    const bin = path.join(folder, 'busybox')
    mkdirSync(bin)
    const busybox = path.join(bin, 'busybox')
    copyFileSync(found, busybox)
    execFileSync(busybox, ['--install', '-s', bin])
    rmSync(path.join(bin, 'awk'))
    // Older versions of awk report a signal like a shell.
    writeFileSync(
      path.join(bin, 'awk'),
      `#!/bin/sh\ncase $1 in *'kill -9'*) echo 137 ;; *) exec ${busybox} awk "$@" ;; esac\n`,
      { mode: 0o755 },
    )
    await using sshd = await startSshd({ ordinary: asRoot, path: bin })
    const sandbox = await sshd.provider().create()
    const run = (script: string, more: { timeoutMs?: number; stdin?: string } = {}) =>
      sandbox.runCommand({ cmd: 'sh', args: ['-c', script], ...more })
    const root = path.join(sshd.home, 'sandkasten')
    expect(['awk-tells', 'grep-sees'].filter((name) => existsSync(path.join(root, name)))).toEqual([])

    expect(await run('cat; echo error >&2; exit 3', { stdin: 'in' })).toMatchObject({
      exitCode: 3,
      stdout: 'in',
      stderr: 'error\n',
    })
    expect(await run('kill -9 $$')).toMatchObject({ exitCode: 137, signal: 'SIGKILL' })
    const many = await run('i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i + 1)); done')
    expect(many.stdout.split('\n').at(-2)).toBe('line 19999')

    // Found by the mark and by ancestry.
    const word = `1000.${process.pid}1`
    const late = run(`setsid sleep ${word} & env -i sleep ${word} & wait`, { timeoutMs: 3000 })
    await expect.poll(() => processesWith(`sleep\0${word}`).length).toBe(2)
    expect((await late).timedOut).toBe(true)
    expect(processesWith(word)).toEqual([])
    await sandbox.spawn({
      cmd: 'sh',
      args: ['-c', `setsid sleep ${word} & env -i sleep ${word} & wait`],
      detached: true,
    })
    await expect.poll(() => processesWith(`sleep\0${word}`).length).toBe(2)
    await sandbox.stop()
    expect(processesWith(word)).toEqual([])
    expect(leftoversOf(root)(sandbox.sandboxId).filter((line) => line.startsWith('/proc'))).toEqual([])
    await sandbox.destroy()
    expect(leftoversOf(root)(sandbox.sandboxId)).toEqual([])
  })

  // Tests further shells if they are installed: their quoting differs from a POSIX shell's.
  const others = ['/bin/csh', '/usr/bin/zsh', '/usr/bin/fish'].filter((shell) => existsSync(shell))
  it.for(['/bin/dash', ...others])('works if the account has the shell %s', async (shell, { skip }) => {
    if (!asRoot) return skip('creating an account needs root')
    await using sshd = await startSshd({ ordinary: true, shell })
    const sandbox = await sshd.provider().create({ name: 'it’s $HOME `id`', envVars: { QUOTE: `'"$(id)` } })
    expect(
      (await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo "$QUOTE" "$0"', `!"\\'`] })).stdout,
    ).toBe(`'"$(id) !"\\'\n`)
    const opened = await sandbox.openShell()
    expect((await opened.exec('echo "$BASH_VERSION"')).output).toMatch(/^\d/)
    await sandbox.files.writeFile('note', 'kept')
    await sandbox.stop()
    await sandbox.start()
    expect(await sandbox.files.readFile('note', 'utf8')).toBe('kept')
    await sandbox.destroy()
  })
})
