import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LocalSandboxExecutor, type LocalSandboxExecutorOptions } from './local-executor.ts'

const directory = await mkdtemp(path.join(tmpdir(), 'sandkasten-executor-'))
afterAll(() => rm(directory, { recursive: true, force: true }))

const make = (options: LocalSandboxExecutorOptions = {}) =>
  new LocalSandboxExecutor({ directory, ...options })

describe('LocalSandboxExecutor', () => {
  let executor: LocalSandboxExecutor
  let folder: string
  beforeEach(async () => {
    executor = make()
    folder = (await executor.sandbox()).workdir
  })
  afterEach(async () => {
    await (await executor.sandbox()).destroy()
  })

  describe('execute', () => {
    it('should execute allowed commands', async () => {
      const result = await executor.execute('echo', ['one  two', '$HOME', '; rm -rf .'])
      expect(result).toMatchObject({ exitCode: 0, stdout: 'one  two $HOME ; rm -rf .\n' })
    })

    it('should reject disallowed commands', async () => {
      await expect(executor.execute('curl', ['example.com'])).rejects.toMatchObject({
        code: 'forbidden',
        hint: expect.stringContaining('allowedCommands'),
      })
    })

    it('should handle command timeout', async () => {
      const result = await executor.execute('sleep', ['1000'], { timeout: 100 })
      expect(result).toMatchObject({ timedOut: true, signal: 'SIGKILL' })
    })

    it('should return stdout, stderr, exitCode', async () => {
      const result = await executor.execute('python3', [
        '-c',
        'import sys; print("out"); print("err", file=sys.stderr); sys.exit(3)',
      ])
      expect(result).toMatchObject({
        stdout: 'out\n',
        stderr: 'err\n',
        exitCode: 3,
        timedOut: false,
        truncated: false,
      })
    })

    it.each([
      ['env', ['ls']],
      ['sh', ['-c', 'ls']],
      ['/bin/ls', []],
      ['./ls', []],
      ['../../bin/ls', []],
      ['ls; rm', ['-rf', '.']],
      ['ls && curl', []],
      ['ls\nrm', []],
      ['$(curl)', []],
      ['LS', []],
      ['xargs', ['rm']],
    ])('the allow-list cannot be bypassed with %j %j (134)', async (command, args) => {
      await executor.writeFile('ls', '#!/bin/sh\ntouch walked-around\n')
      await (await executor.sandbox()).files.chmod('ls', 0o755)
      await expect(executor.execute(command, args)).rejects.toMatchObject({ code: 'forbidden' })
      expect(await executor.listFiles()).toEqual(['ls'])
    })

    it.each(['PATH', 'LD_PRELOAD', 'BASH_ENV', 'NODE_OPTIONS', 'PYTHONSTARTUP', 'GIT_SSH_COMMAND'])(
      'nor with the variable %s',
      async (name) => {
        await expect(executor.execute('ls', [], { env: { [name]: '.' } })).rejects.toMatchObject({
          code: 'forbidden',
        })
      },
    )

    it.each(['sh', 'env', 'xargs', 'find', 'sudo', '/bin/ls', 'ls -l'])(
      'a list with %s is rejected',
      (name) => {
        expect(() => make({ allowedCommands: [name] })).toThrow(
          expect.objectContaining({ code: 'forbidden' }),
        )
      },
    )

    it('any command can be allowed explicitly', async () => {
      const open = make({ allowedCommands: 'any' })
      expect((await open.execute('sh', ['-c', 'echo $((6 * 7))'])).stdout).toBe('42\n')
      await (await open.sandbox()).destroy()
    })

    it('runs in the sandbox’s folder with the given cwd and env, not in the server’s (136)', async () => {
      await executor.writeFile('sub/file', '')
      expect((await executor.execute('pwd')).stdout.trim()).toBe(folder)
      const result = await executor.execute(
        'python3',
        ['-c', 'import os; print(os.getcwd(), os.environ["A"])'],
        { cwd: 'sub', env: { A: 'b c' } },
      )
      expect(result.stdout).toBe(`${path.join(folder, 'sub')} b c\n`)
    })

    it('rejects sudo instead of ignoring it', async () => {
      await expect(executor.execute('ls', [], { sudo: true })).rejects.toMatchObject({ code: 'unsupported' })
    })

    it('reports truncated output', async () => {
      const small = make({ maxOutputBytes: 1000 })
      const result = await small.execute('seq', ['100000'])
      expect(result.truncated).toBe(true)
      expect(result.stdout).toMatch(/^1\n2\n.*bytes left out.*100000\n$/s)
      await (await small.sandbox()).destroy()
    })
  })

  describe('writeFile', () => {
    it('should write file to sandbox directory', async () => {
      await executor.writeFile('a.txt', 'content')
      expect(await readFile(path.join(folder, 'a.txt'), 'utf8')).toBe('content')
    })

    it('should create parent directories', async () => {
      await executor.writeFile('deep/er/a.bin', Buffer.from([0, 255]))
      expect([...(await readFile(path.join(folder, 'deep/er/a.bin')))]).toEqual([0, 255])
    })

    it.each(['../x', '/etc/x', 'link/x'])('never writes outside: %s (135)', async (file) => {
      await symlink(directory, path.join(folder, 'link'))
      await expect(executor.writeFile(file, 'x')).rejects.toMatchObject({ code: 'path_outside' })
    })
  })

  describe('readFile', () => {
    it('should read file from sandbox', async () => {
      await writeFile(path.join(folder, 'there'), 'grüße')
      expect(await executor.readFile('there')).toBe('grüße')
    })

    it('should return null for non-existent file', async () => {
      expect(await executor.readFile('nothing')).toBeNull()
    })

    it('any other failure is an error, not null (140)', async () => {
      await executor.writeFile('folder/x', '')
      await expect(executor.readFile('folder')).rejects.toMatchObject({ code: 'is_a_directory' })
      await expect(executor.readFile('../../x')).rejects.toMatchObject({ code: 'path_outside' })
    })
  })

  describe('listFiles', () => {
    it('should list files in sandbox', async () => {
      await executor.writeFile('b\nline', '')
      await executor.writeFile('.hidden', '')
      await executor.writeFile('a/x', '')
      expect(await executor.listFiles()).toEqual(['.hidden', 'a', 'b\nline'])
      expect(await executor.listFiles('a')).toEqual(['x'])
    })

    it('should return empty array when sandbox is empty', async () => {
      expect(await executor.listFiles()).toEqual([])
    })
  })

  describe('cleanup', () => {
    it('should remove all files from sandbox', async () => {
      await executor.writeFile('a/b', '')
      await executor.writeFile('.c', '')
      const running = await (await executor.sandbox()).spawn({ cmd: 'sleep', args: ['1000'] })
      await executor.cleanup()
      expect(await executor.listFiles()).toEqual([])
      expect((await running.wait()).signal).toBe('SIGKILL')
    })

    it('should recreate empty sandbox directory', async () => {
      await executor.writeFile('a', '')
      await executor.cleanup()
      expect(await readdir(folder)).toEqual([])
      await executor.writeFile('again', 'x')
      expect(await readdir(folder)).toEqual(['again'])
    })

    it('does not affect other conversations (138)', async () => {
      const other = make({ conversationId: 'other' })
      await other.writeFile('mine', 'x')
      await executor.cleanup()
      expect(await other.readFile('mine')).toBe('x')
      await (await other.sandbox()).destroy()
    })
  })
})
