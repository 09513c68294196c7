import { execFile } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { planOut } from '../../src/copy-out.ts'
import { parseMount, parseOut } from '../../src/mount-option.ts'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
const home = await mkdtemp(path.join(tmpdir(), 'sandkasten-run-files-'))
await chmod(home, 0o755)
const env = { ...process.env, SANDKASTEN_HOME: home }
const probe = new EngineProvider({ isolator: 'oci', root: path.join(home, 'probe') })
const isolates = process.getuid?.() === 0 && (await probe.healthCheck().catch(() => false))
const isolator = isolates ? 'oci' : 'process'

let cwd = home
let count = 0
beforeEach(async () => {
  count += 1
  cwd = path.join(home, `work-${count}`)
  await mkdir(cwd)
})
afterAll(() => rm(home, { recursive: true, force: true }))

function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const words = [bin, 'run', '--isolator', isolator, ...args]
  return new Promise((resolve) => {
    const child = execFile(process.execPath, words, { env, cwd }, (error, stdout, stderr) => {
      resolve({ code: error ? ((error.code as number | undefined) ?? -1) : 0, stdout, stderr })
    })
    child.stdin!.end('')
  })
}

describe('--mount', () => {
  it('accepts a mode, and rejects unknown ones', () => {
    const at = (name: string) => path.resolve(name)
    expect(parseMount('./a:/x', [])).toEqual([{ source: at('a'), target: '/x', readOnly: true }])
    expect(parseMount('./a:/x:ro', [])).toEqual([{ source: at('a'), target: '/x', readOnly: true }])
    expect(parseMount('./a:/x:rw', [])).toEqual([{ source: at('a'), target: '/x', readOnly: false }])
    expect(parseMount('./a\\:b:/x\\:y:rw', [])).toEqual([
      { source: at('a:b'), target: '/x:y', readOnly: false },
    ])
    for (const bad of [
      './a',
      './a:x',
      ':/x',
      './a:/x:',
      './a:/x:z',
      './a:/x:rw,z',
      './a:/x:rw:ro',
      'C:\\a:/x',
      'type=bind,source=/a,target=/x',
    ])
      expect(() => parseMount(bad, []), bad).toThrow(/Use|use/)
  })

  it(':rw lets the sandbox write, and the files belong to the owner of the folder', async ({ skip }) => {
    if (!isolates) skip('needs root on Linux with crun')
    await mkdir(path.join(cwd, 'theirs'))
    await chown(path.join(cwd, 'theirs'), 4321, 4321)
    await mkdir(path.join(cwd, 'ours'))
    const script =
      'echo 1 > /x/file; echo 2 > /y/file; id -u; chmod u+s /x/file; mknod /x/null c 1 3; echo 3 > /z/file'
    const mounts = ['--mount', './ours:/x:rw', '-v', './theirs:/y:rw', '--mount', './ours:/z:ro']
    const { stdout, stderr } = await run(...mounts, '--', 'sh', '-c', script)
    expect(stdout).toBe('1000\n')
    expect(stderr.match(/not permitted|Read-only/g)).toHaveLength(3)
    const { uid, gid, mode } = lstatSync(path.join(cwd, 'ours/file'))
    expect([uid, gid, mode & 0o7777]).toEqual([0, 0, 0o644])
    expect(lstatSync(path.join(cwd, 'theirs/file'))).toMatchObject({ uid: 4321, gid: 4321 })
    expect(readdirSync(path.join(cwd, 'ours'))).toEqual(['file'])
  })
})

describe('--out', () => {
  it('accepts a destination', () => {
    const at = (name: string) => path.resolve(name)
    expect(parseOut('dist', [])).toEqual([{ from: 'dist', to: at('.') }])
    expect(parseOut('/a/b:./c/', [])).toEqual([{ from: '/a/b', to: `${at('c')}/` }])
    expect(parseOut('/a\\:b', [])).toEqual([{ from: '/a:b', to: at('.') }])
    for (const bad of ['', ':x', 'a:', 'a:b:c']) expect(() => parseOut(bad, []), bad).toThrow('Use')
  })

  it('copies files and folders, also when the command fails', async () => {
    const script =
      'mkdir -p d/e; echo one > d/one; printf "#!/bin/sh" > d/e/run; chmod 755 d/e/run; echo r > result; exit 7'
    const outs = ['--out', 'd', '--out', 'result:copied', '--out', 'result:new/folder/']
    expect(await run(...outs, '--', 'sh', '-c', script)).toMatchObject({
      code: 7,
      stderr: expect.not.stringContaining('out'),
    })
    expect(readFileSync(path.join(cwd, 'd/one'), 'utf8')).toBe('one\n')
    expect(lstatSync(path.join(cwd, 'd/e/run')).mode & 0o777).toBe(0o755)
    expect(readFileSync(path.join(cwd, 'copied'), 'utf8')).toBe('r\n')
    expect(readFileSync(path.join(cwd, 'new/folder/result'), 'utf8')).toBe('r\n')
  })

  it('relative paths start in the command’s working folder', async () => {
    expect(
      await run('-w', '/tmp', '--out', 'sk-out-file', '--', 'sh', '-c', 'echo x > sk-out-file'),
    ).toMatchObject({ code: 0 })
    expect(readFileSync(path.join(cwd, 'sk-out-file'), 'utf8')).toBe('x\n')
    if (!isolates) await rm('/tmp/sk-out-file', { force: true })
  })

  it('a missing result is a failure, unless the command has failed', async () => {
    expect(await run('--out', 'none', '--', 'true')).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('none does not exist in the sandbox'),
    })
    expect(await run('--out', 'none', '--', 'sh', '-c', 'exit 3')).toMatchObject({ code: 3 })
  })

  it('copies only files and folders, and never writes through a link', async () => {
    await writeFile(path.join(cwd, 'precious'), 'kept')
    await symlink(path.join(cwd, 'precious'), path.join(cwd, 'link-here'))
    const script = `mkdir d; echo x > d/file; ln -s ${cwd}/precious d/link; ln -s / d/root; mkfifo d/fifo; echo evil > link-here; ln -s /etc/passwd top`
    const { code, stderr } = await run('--out', 'd', '--out', 'link-here:./', '--', 'sh', '-c', script)
    expect(code).toBe(0)
    expect(stderr.match(/skipped/g)).toHaveLength(3)
    expect(readdirSync(path.join(cwd, 'd'))).toEqual(['file'])
    expect(lstatSync(path.join(cwd, 'd/file')).isFile()).toBe(true)
    expect(readFileSync(path.join(cwd, 'precious'), 'utf8')).toBe('kept')
    expect(lstatSync(path.join(cwd, 'link-here')).isFile()).toBe(true)
  })

  it('writes no more than the limit', async () => {
    const { code, stderr } = await run(
      '--out-limit',
      '1m',
      '--out',
      'd',
      '--',
      'sh',
      '-c',
      'mkdir d; head -c 700k /dev/zero > d/a; head -c 700k /dev/zero > d/b',
    )
    expect([code, stderr]).toEqual([125, expect.stringContaining('--out-limit')])
    expect(readdirSync(path.join(cwd, 'd'))).toEqual(['a'])
  })

  it('refuses a destination that the sandbox can write to, before the command runs', async () => {
    await mkdir(path.join(cwd, 'shared/sub'), { recursive: true })
    await symlink(path.join(cwd, 'shared'), path.join(cwd, 'alias'))
    const mounts = [{ source: path.join(cwd, 'shared'), target: '/x', readOnly: false }]
    for (const to of ['shared', 'shared/sub/', 'shared/new/deep', 'alias/x'])
      expect(() => planOut(parseOut(`f:${path.join(cwd, to)}`, []), mounts), to).toThrow('writable mount')
    // A result with the name of the mounted folder would end up inside it.
    expect(() => planOut([{ from: 'shared', to: cwd }], mounts)).toThrow('writable mount')
    expect(() => planOut(parseOut(`f:${path.join(cwd, 'shared-too')}`, []), mounts)).not.toThrow()
    const readOnly = mounts.map((mount) => ({ ...mount, readOnly: true }))
    expect(() => planOut(parseOut(`f:${path.join(cwd, 'shared')}`, []), readOnly)).not.toThrow()
    expect(existsSync(path.join(cwd, 'shared/f'))).toBe(false)
  })
})
