import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
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
  afterEach(() => executor.cleanup())

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
      await open.cleanup()
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
      await small.cleanup()
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

  describe('executeLine', () => {
    it('runs one allowed program, with quotes as in a shell', async () => {
      const line = `printf '%s|' "two words" it\\'s "a \\"b\\"" ''`
      expect((await executor.executeLine(line)).stdout).toBe(`two words|it's|a "b"||`)
    })

    it.each([
      'ls | sort',
      'ls > x',
      'ls; ls',
      'echo $HOME',
      'echo "$(ls)"',
      'echo `ls`',
      'ls *',
      'ls\nls',
      "echo 'a",
    ])('rejects what needs a shell: %j', async (line) => {
      await expect(executor.executeLine(line)).rejects.toMatchObject({ code: 'forbidden' })
    })

    it.each(['curl example.com', 'sh -c ls', 'PATH=. ls', '/bin/ls', "'ls -l'", ''])(
      'the allow-list cannot be bypassed with %j',
      async (line) => {
        await expect(executor.executeLine(line)).rejects.toMatchObject({ code: 'forbidden' })
      },
    )

    it('is a shell line if any command is allowed', async () => {
      const open = make({ allowedCommands: 'any' })
      const result = await open.executeLine('cd / && x=({a,b}); echo $x | tr a B; exit 3')
      expect(result).toMatchObject({ stdout: 'B\n', exitCode: 3 })
      await open.cleanup()
    })
  })

  describe('cleanup', () => {
    it('should remove all files from sandbox', async () => {
      await executor.writeFile('a/b', '')
      await executor.writeFile('.c', '')
      const running = await (await executor.sandbox()).spawn({ cmd: 'sleep', args: ['1000'] })
      await executor.cleanup()
      expect(existsSync(folder)).toBe(false)
      expect((await running.wait()).signal).toBe('SIGKILL')
      expect(await executor.listFiles()).toEqual([])
    })

    it('should recreate empty sandbox directory', async () => {
      await executor.writeFile('a', '')
      await executor.cleanup()
      // At the next call, so that a conversation that has ended leaves nothing.
      expect(await executor.listFiles()).toEqual([])
      const { workdir } = await executor.sandbox()
      expect(await readdir(workdir)).toEqual([])
      await executor.writeFile('again', 'x')
      expect(await readdir(workdir)).toEqual(['again'])
    })

    it('leaves no folder, whether the executor was used or not', async () => {
      const own = path.join(directory, 'own')
      const used = make({ directory: own, conversationId: 'used' })
      await used.writeFile('a/b', 'x')
      await used.cleanup()
      expect(existsSync(own)).toBe(false)
      await used.cleanup()
      await make({ directory: own }).cleanup()
      expect(existsSync(own)).toBe(false)
    })

    it('keeps what else is in the directory', async () => {
      const own = path.join(directory, 'with-notes')
      await mkdir(own)
      await writeFile(path.join(own, 'note'), '')
      const used = make({ directory: own })
      await used.writeFile('a', 'x')
      await used.cleanup()
      expect(await readdir(own)).toEqual(['note'])
    })

    it('finds the sandbox of another executor of the conversation', async () => {
      const own = path.join(directory, 'requests')
      await make({ directory: own, conversationId: 'c' }).writeFile('a', 'x')
      await make({ directory: own, conversationId: 'c' }).cleanup()
      expect(existsSync(own)).toBe(false)
    })

    it('does not affect other conversations (138), also if they begin and end meanwhile', async () => {
      const own = path.join(directory, 'busy')
      const conversation = async (name: string) => {
        const each = make({ directory: own, conversationId: name })
        for (let turn = 0; turn < 15; turn += 1) {
          await each.writeFile('mine', `${name} ${turn}`)
          expect(await each.readFile('mine')).toBe(`${name} ${turn}`)
          await each.cleanup()
        }
      }
      await Promise.all(['a', 'b', 'c', 'd'].map(conversation))
      expect(existsSync(own)).toBe(false)
    })
  })
})
