import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
const home = await mkdtemp(path.join(tmpdir(), 'sandkasten-cli-'))
const env = { ...process.env, SANDKASTEN_HOME: home }
const isolated = await canIsolate()

function sandkasten(
  args: string[],
  input?: string,
): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [bin, ...args], { env, cwd: home }, (error, stdout, stderr) => {
      resolve({ code: error ? ((error.code as number | undefined) ?? -1) : 0, stdout, stderr })
    })
    child.stdin!.end(input ?? '')
  })
}

afterAll(() => rm(home, { recursive: true, force: true }))

async function canIsolate(): Promise<string | undefined> {
  const provider = new EngineProvider({ isolator: 'oci', root: path.join(home, 'probe') })
  return (await provider.healthCheck().catch(() => false)) ? undefined : 'needs root on Linux with crun'
}

describe.each(['oci', 'process'])('sandkasten run --isolator %s', (isolator) => {
  const run = (args: string[], input?: string) => sandkasten(['run', '--isolator', isolator, ...args], input)
  beforeEach(({ skip }) => {
    if (isolator === 'oci' && isolated) skip(isolated)
  })

  it('streams both outputs and exits with the command’s code', async () => {
    const result = await run(['--', 'sh', '-c', 'echo out; echo err >&2; exit 3'])
    expect(result).toMatchObject({ code: 3, stdout: 'out\n' })
    expect(result.stderr).toContain('err\n')
  })

  it('passes arguments unchanged, and options after the command to the command', async () => {
    expect((await run(['echo', '--env', 'a  b', '$HOME'])).stdout).toBe('--env a  b $HOME\n')
  })

  it('forwards stdin and end-of-file', async () => {
    expect((await run(['--', 'cat'], 'piped in')).stdout).toBe('piped in')
  })

  it('sets variables, by value and by name', async () => {
    const result = await run(['-e', 'A=1 2', '-e', 'PATH', '--', 'sh', '-c', 'echo "$A"'])
    expect(result.stdout).toBe('1 2\n')
    expect((await run(['-e', 'SANDKASTEN_NOT_SET', '--', 'true'])).code).toBe(125)
  })

  it('exits with 127 and a message if the program is missing', async () => {
    expect(await run(['--', 'no-such-program'])).toMatchObject({
      code: 127,
      stderr: expect.stringContaining('no-such-program'),
    })
  })

  it('--timeout ends the command', async () => {
    expect(await run(['--timeout', '0.5', '--', 'sleep', '1000'])).toMatchObject({
      code: 124,
      stderr: expect.stringContaining('0.5 s'),
    })
  })

  it('--timeout ends the command on a terminal too', async () => {
    const result = await run(['-t', '--timeout', '0.5', '--', 'sleep', '1000'])
    expect(result).toMatchObject({ code: 124, stderr: expect.stringContaining('0.5 s') })
  })

  it('forwards a signal and returns the exit code', async () => {
    const line = 'trap "echo got it; exit 9" TERM; echo ready; while :; do sleep 0.1; done'
    const child = spawn(process.execPath, [bin, 'run', '--isolator', isolator, '--', 'sh', '-c', line], {
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let stdout = ''
    child.stdout.on('data', (data) => {
      stdout += data
      if (stdout === 'ready\n') child.kill('SIGTERM')
    })
    expect(await once(child, 'close')).toEqual([9, null])
    expect(stdout).toBe('ready\ngot it\n')
  })

  it('a closed reader ends the command, and the sandbox is removed', async () => {
    const line = `"${process.execPath}" "${bin}" run --isolator ${isolator} -- yes | head -2`
    const child = spawn('bash', ['-c', `${line}; echo "\${PIPESTATUS[0]}"`], {
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let stdout = ''
    child.stdout.on('data', (data) => {
      stdout += data
    })
    await once(child, 'close')
    expect(stdout).toBe('y\ny\n141\n')
    expect(await readdir(path.join(home, 'engine/sandboxes'))).toEqual([])
  })

  it('leaves nothing behind after SIGKILL: the next run cleans up', async () => {
    const child = spawn(
      process.execPath,
      [bin, 'run', '--isolator', isolator, '--', 'sh', '-c', 'echo up; sleep 1000'],
      { env, stdio: ['ignore', 'pipe', 'inherit'] },
    )
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(await readdir(path.join(home, 'engine/sandboxes'))).toHaveLength(1)
    await run(['--', 'true'])
    expect(await readdir(path.join(home, 'engine/sandboxes'))).toEqual([])
  })
})

describe('sandkasten run, isolated', () => {
  it('mounts a folder read-only and exposes no other file of this machine', async ({ skip }) => {
    if (isolated) skip(isolated)
    // Readable by everyone: the sandbox's user has no account here.
    await chmod(home, 0o755)
    const data = path.join(home, 'data')
    await mkdir(data)
    await writeFile(path.join(data, 'shown'), 'shown')
    const result = await sandkasten([
      'run',
      '--mount',
      `${data}:/data`,
      '--',
      'sh',
      '-c',
      `cat /data/shown; touch /data/x; ls ${home}; ls /root`,
    ])
    expect(result.stdout).toBe('shown')
    expect(result.stderr).toMatch(/Read-only file system[\s\S]*No such file[\s\S]*Permission denied/)
  })

  it('reports that the memory ran out', async ({ skip }) => {
    if (isolated) skip(isolated)
    const result = await sandkasten([
      'run',
      '-m',
      '64m',
      '--',
      'sh',
      '-c',
      'head -c 200m /dev/zero | tail -c 200m | wc -c; exit 137',
    ])
    expect(result).toMatchObject({ code: 137, stderr: expect.stringContaining('--memory') })
  })
})

describe('sandkasten run --runtime', () => {
  it('uses another runtime, and reports a missing one', async ({ skip }) => {
    if (isolated) skip(isolated)
    const missing = await sandkasten(['run', '--runtime', 'no-such-runtime', '--', 'true'])
    expect(missing).toMatchObject({ code: 125, stderr: expect.stringContaining('no-such-runtime') })
    if (!existsSync('/usr/sbin/runc') && !existsSync('/usr/bin/runc'))
      skip('needs runc: apt-get install runc')
    const result = await sandkasten(['run', '--runtime', 'runc', '--', 'echo', 'in'])
    expect(result).toMatchObject({ code: 0, stdout: 'in\n' })
  })
})

describe('sandkasten', () => {
  it('suggests a correction, and has its own exit code for its own failures', async () => {
    expect(await sandkasten(['rnu'])).toMatchObject({ code: 125, stderr: expect.stringContaining('run') })
    expect(await sandkasten(['run', '--memory', 'much', '--', 'true'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('512m'),
    })
    expect(await sandkasten(['run', '--mount', 'x', '--', 'true'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('source:target'),
    })
    expect(await sandkasten(['--help'])).toMatchObject({ code: 0, stdout: expect.stringContaining('doctor') })
  })

  it('doctor reports what this machine supports, as text and JSON', async () => {
    const { code, stdout } = await sandkasten(['doctor', '--json'])
    const { isolated: works, findings } = JSON.parse(stdout)
    expect([works, code]).toEqual(isolated ? [false, 1] : [true, 0])
    for (const { ok, fix } of findings) if (!ok) expect(fix).toMatch(/\S/)
    const { stdout: text } = await sandkasten(['doctor'])
    expect(text).toContain('isolator oci')
    for (const runtime of ['crun', 'runc', 'runsc'])
      expect(text).toMatch(new RegExp(`[✓✗] runtime ${runtime}: `))
  })

  it('has the Cloudflare command', async () => {
    expect(await sandkasten(['cloudflare', '--help'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('sync'),
    })
  })
})
