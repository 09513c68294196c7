import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { localCapabilities } from './capabilities.ts'
import { LocalProvider } from './index.ts'
import { inAnotherProcess, processesOf, providerAt, temporaryFolder, until } from './test-helper.ts'

describe('local sandboxes', async () => {
  const root = await temporaryFolder()
  const provider = providerAt(root)

  it('processes that race for a name get the same sandbox, created once', async () => {
    const race = () =>
      inAnotherProcess(
        root,
        `const sandbox = await provider.getOrCreate({ name: 'shared', onCreate: (box) => box.files.appendFile('made', 'once ') })
         console.log(sandbox.id, await sandbox.files.readFile('made', 'utf8'))`,
      )
    const answers = await Promise.all([race(), race(), race(), race()])
    expect(new Set(answers).size).toBe(1)
    expect(answers[0]).toMatch(/^local:\w+ once$/)
    await provider.destroy(answers[0]!.split(' ')[0]!)
  })

  it('a sandbox whose creator died is shown as failed, and removed on the next access', async () => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', creator(root)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = (await once(child.stdout!.setEncoding('utf8'), 'data')) as [string]
    expect((await provider.list({ name: 'half' })).map(({ status }) => status)).toEqual(['creating'])
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect((await provider.list({ name: 'half' })).map(({ status }) => status)).toEqual(['failed'])
    await expect(provider.get(line.trim())).rejects.toMatchObject({ code: 'not_found' })
    expect(await provider.list({ name: 'half' })).toEqual([])
    const again = await provider.getOrCreate({ name: 'half' })
    await again.destroy()
  })

  it('takes over the lock of a dead process', async () => {
    const sandbox = await provider.create()
    await writeFile(
      path.join(root, 'sandboxes', sandbox.sandboxId, 'lock'),
      JSON.stringify({ pid: 2 ** 22 + 1, started: '1' }),
    )
    await sandbox.stop()
    expect(await sandbox.status()).toBe('stopped')
    await sandbox.destroy()
  })

  it('a detached process ends with its sandbox’s lifetime, even if its starter is gone', async () => {
    const [id, pid] = (
      await inAnotherProcess(
        root,
        `const sandbox = await provider.create({ lifetimeMs: 1500 })
         const sleep = await sandbox.spawn({ cmd: 'sleep', args: ['1000'], detached: true })
         console.log(sandbox.sandboxId, sleep.pid)`,
      )
    ).split(' ')
    expect(await processesOf(id!)).toEqual([pid])
    await until('the process is ended', async () => (await processesOf(id!)).length === 0)
    expect(await (await provider.get(id!, { resume: false })).status()).toBe('stopped')
    await provider.destroy(id!)
  })

  it('lets only the owner read the environment passed to create', async () => {
    const sandbox = await provider.create({ envVars: { TOKEN: 'secret' } })
    const { mode } = await (await import('node:fs/promises')).stat(
      path.join(root, 'sandboxes', sandbox.sandboxId, 'sandbox.json'),
    )
    expect(mode & 0o077).toBe(0)
    const { snapshotId } = await sandbox.snapshot()
    const files = await readdir(path.join(root, 'snapshots', snapshotId), { recursive: true })
    for (const file of files)
      expect(
        await readFile(path.join(root, 'snapshots', snapshotId, file), 'utf8').catch(() => ''),
      ).not.toContain('secret')
    await sandbox.destroy()
    await provider.deleteSnapshot(snapshotId)
  })

  it('does not hang on a named pipe in place of a file', async () => {
    const sandbox = await provider.create()
    await sandbox.runCommand({ cmd: 'mkfifo', args: ['pipe'] })
    await expect(sandbox.files.readFile('pipe')).rejects.toMatchObject({ code: 'invalid_argument' })
    await sandbox.files.writeFile('pipe', 'now a file')
    expect(await sandbox.files.readFile('pipe', 'utf8')).toBe('now a file')
    await sandbox.runCommand({ cmd: 'mkfifo', args: ['second'] })
    const { snapshotId } = await sandbox.snapshot()
    const copy = await provider.create({ snapshotId })
    expect(await copy.files.readdir('.')).toEqual(['pipe'])
    await Promise.all([sandbox.destroy(), copy.destroy(), provider.deleteSnapshot(snapshotId)])
  })

  it('removes folders without permissions', async () => {
    const sandbox = await provider.create()
    await mkdir(path.join(sandbox.workdir, 'closed/deep'), { recursive: true })
    await chmod(path.join(sandbox.workdir, 'closed/deep'), 0)
    await chmod(path.join(sandbox.workdir, 'closed'), 0)
    expect(await sandbox.destroy()).toBe(true)
    expect(await readdir(path.join(root, 'sandboxes'))).not.toContain(sandbox.sandboxId)
  })

  it('reports a full disk, and keeps the old content without partial files', async ({ skip }) => {
    if (process.getuid?.() !== 0 || process.platform !== 'linux')
      skip('needs root on Linux, to mount a small disk')
    const small = path.join(root, 'small')
    await mkdir(small)
    await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', small])
    onTestFinished(async () => {
      await promisify(execFile)('umount', [small])
    })
    const cramped = providerAt(small)
    const sandbox = await cramped.create()
    await sandbox.files.writeFile('kept', 'old')
    const tooMuch = (async function* () {
      for (let i = 0; i < 64; i += 1) yield new Uint8Array(64 * 1024)
    })()
    await expect(sandbox.files.writeFile('kept', tooMuch)).rejects.toMatchObject({
      code: 'disk_full',
      hint: expect.stringContaining('root'),
    })
    expect(await sandbox.files.readFile('kept', 'utf8')).toBe('old')
    await sandbox.files.writeFile('half', new Uint8Array(1200 * 1024))
    await expect(sandbox.snapshot()).rejects.toMatchObject({ code: 'disk_full' })
    expect(await cramped.listSnapshots()).toEqual([])
    expect(await readdir(path.join(small, 'snapshots'))).toEqual([])
    const named = await cramped.create({ name: 'named' })
    await promisify(execFile)('sh', ['-c', `head -c 3000000 /dev/zero > ${small}/filler || true`])
    await expect(cramped.create()).rejects.toMatchObject({ code: 'disk_full' })
    expect((await cramped.list()).map(({ sandboxId }) => sandboxId)).toEqual([
      sandbox.sandboxId,
      named.sandboxId,
    ])
    expect(await Promise.all([sandbox.destroy(), named.destroy()])).toEqual([true, true])
    expect(await readdir(path.join(small, 'sandboxes'))).toEqual([])
  })

  it('reports an unusable root', async () => {
    const file = path.join(root, 'a-file')
    await writeFile(file, '')
    const broken = providerAt(path.join(file, 'below'))
    expect(await broken.healthCheck()).toBe(false)
    await expect(broken.create()).rejects.toMatchObject({ code: 'not_a_directory' })
  })

  it('warns once about the missing isolation, unless accepted', async () => {
    const warnings: string[] = []
    const listen = (warning: Error & { code?: string }) => warnings.push(warning.code ?? '')
    process.on('warning', listen)
    onTestFinished(() => void process.off('warning', listen))
    new LocalProvider({ root })
    new LocalProvider({ root })
    await until('the warning is shown', () => warnings.length > 0)
    expect(warnings).toEqual(['SANDKASTEN_NO_ISOLATION'])
    expect(provider.isolation).toBe('none')
  })

  it('declares the abilities of each platform', () => {
    expect(localCapabilities('linux', () => true)).toMatchObject({ shell: 'native', terminal: 'emulated' })
    expect(localCapabilities('darwin', () => true)).not.toHaveProperty('terminal')
    expect(localCapabilities('win32', () => true)).not.toHaveProperty('shell')
    expect(localCapabilities('linux', () => false)).not.toHaveProperty('shell')
  })
})

/** Starts to create a named sandbox and never finishes. */
function creator(root: string): string {
  const module = JSON.stringify(new URL('./index.ts', import.meta.url).href)
  return `const { LocalProvider } = await import(${module})
    const provider = new LocalProvider({ root: ${JSON.stringify(root)}, acceptNoIsolation: true })
    await provider.getOrCreate({ name: 'half', onCreate: (sandbox) => { console.log(sandbox.id); return new Promise(() => setInterval(() => {}, 1000)) } })`
}
