import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { bootstrapOpencode } from '@sandkasten/opencode'
import type { SandboxHandle } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { leftIn, type Surroundings, sh, surroundings } from './surroundings.ts'

const missing = await isolationMissing()

/** Each failed start says what is wrong and what to do, and leaves nothing in the sandbox. */
describe.skipIf(missing)(`a start of opencode that cannot succeed${missing ? ` (${missing})` : ''}`, () => {
  let all: Surroundings
  let handle: SandboxHandle
  let folder: string
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'sk-programs-'))
    all = await surroundings()
    handle = await all.create()
  }, 60_000)
  afterAll(async () => {
    await all?.close()
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  /** A program that claims to be the pinned version, and does something else as a server. */
  const program = (text: string) => {
    const file = path.join(folder, 'opencode')
    writeFileSync(file, `#!/bin/sh\n[ "$1" = --version ] && { echo 1.18.33; exit; }\n${text}`, {
      mode: 0o755,
    })
    return file
  }
  const failure = async (given: Parameters<typeof bootstrapOpencode>[1], of = handle) => {
    const started = Date.now()
    const error = await bootstrapOpencode(of, { ...all.options, ...given }).then(
      () => expect.fail('It started.'),
      (reason: unknown) => reason as Error & { code: string; hint: string },
    )
    expect(error.name).toBe('SandboxError')
    expect(error.hint).toMatch(/\w{3}/)
    return { ...error, message: error.message, code: error.code, ms: Date.now() - started }
  }

  it('the port is used by another program', async () => {
    const server = await handle.spawn({ cmd: 'python3', args: ['-m', 'http.server', '7777'], detached: true })
    await expect.poll(() => sh(handle, 'grep -c ":1E61 .* 0A " /proc/net/tcp || true')).toBe('1\n')
    const { code, message, ms } = await failure({})
    expect({ code, message }).toEqual({
      code: 'conflict',
      message: 'Port 7777 of the sandbox is used by another program.',
    })
    expect(ms).toBeLessThan(10_000)
    expect(await leftIn(handle)).toEqual([])
    await server.kill('SIGKILL')
  })

  it('a program takes the port in the moment of the start', async () => {
    const binary = program(
      'python3 -m http.server 7777 >/dev/null 2>&1 &\nsleep 1; echo cannot listen; exit 1',
    )
    // It ends with the sandbox: it belongs to no process of ours.
    const taken = await all.create()
    expect(await failure({ binary }, taken)).toMatchObject({
      code: expect.stringMatching(/conflict|unavailable/),
    })
  })

  it('an opencode that prints garbage and ends', async () => {
    const binary = program(
      'printf "\\033[31m\\000\\001garbage \\377 %s\\n" "$OPENCODE_SERVER_PASSWORD" >&2; exit 3',
    )
    const password = 'the-password-of-this-test'
    const { code, message, details } = (await failure({ binary, password })) as never
    expect(code).toBe('unavailable')
    expect(details).toMatchObject({ exitCode: 3 })
    expect(message).toContain('exit code 3')
    expect(message).toContain('garbage')
    expect(message).toContain('[redacted]')
    expect(message).not.toContain(password)
    expect(message).not.toMatch(/[^\P{Cc}\n]/u)
    expect(await sh(handle, 'ps -eo args= | grep "[o]pencode" || true')).toBe('')
    await sh(handle, 'rm "$HOME/.local/bin/opencode"')
  })

  it('a page instead of the health check', async () => {
    const page = `require('http').createServer((_, a) => a.end('<html>')).listen(7777, '127.0.0.1', () => console.log('listening on http'))`
    const binary = program(`exec node -e "${page}"`)
    const { code, message, ms } = await failure({ binary, hostname: '127.0.0.1', deadlineMs: 6000 })
    expect(code).toBe('timeout')
    expect(message).toContain('listening on http')
    expect(ms).toBeLessThan(12_000)
    expect(await sh(handle, 'ps -eo args= | grep "[c]reateServer" || true')).toBe('')
    await sh(handle, 'rm "$HOME/.local/bin/opencode"')
  })

  it('another version than the program says, and a program for another machine', async () => {
    const binary = program('exit 1')
    expect(await failure({ binary, opencodeVersion: '1.2.3' })).toMatchObject({
      code: 'conflict',
      message: expect.stringMatching(/reports version 1\.18\.33, and opencode 1\.2\.3 is needed/),
    })
    await sh(handle, 'rm "$HOME/.local/bin/opencode"')
    const elf = Buffer.alloc(64)
    elf.write('\x7fELF\x02\x01', 'latin1')
    elf.writeUInt16LE(183, 18)
    writeFileSync(path.join(folder, 'arm'), elf)
    expect(await failure({ binary: path.join(folder, 'arm') })).toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/is for arm64, and the sandbox has x64 with glibc/),
    })
    expect(await leftIn(handle)).toEqual([])
  })

  it('a version that npm does not have, or cannot reach', async () => {
    const error = await failure({ opencodeVersion: '1.2.3', envVars: { NPM_TOKEN: 'npm-secret-value' } })
    expect(error).toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(
        /^Failed to install opencode: npm ended with exit code \d+\.\n[\s\S]*npm/,
      ),
    })
    expect(await leftIn(handle)).toEqual([])
  }, 240_000)

  it('a sandbox without git', async () => {
    const tools =
      'mkdir -p bin; for t in sh uname grep cut sed cat wc mkdir ps find; do ln -sf "$(command -v $t)" bin/; done'
    await sh(handle, tools)
    expect(await failure({ envVars: { PATH: '/workspace/bin' } })).toMatchObject({
      code: 'command_not_found',
      message: 'The sandbox has no git, which opencode needs.',
    })
    expect(await leftIn(handle)).toEqual([])
  })

  it('a home that cannot be written, a folder that does not exist', async () => {
    expect(await failure({ envVars: { HOME: '/usr/share' } })).toMatchObject({
      code: 'permission_denied',
      message: expect.stringContaining('/usr/share'),
      hint: expect.stringContaining('HOME'),
    })
    expect(await failure({ cwd: '/workspace/absent' })).toMatchObject({ code: 'cwd_not_found' })
  })

  it('a full disk', async ({ skip }) => {
    if (!all.provider.limitsDisks) skip('disks cannot be limited here')
    const small = await all.create({ resources: { diskMb: 128 } })
    await sh(
      small,
      'dd if=/dev/zero of=fill bs=64k status=none || true; dd if=/dev/zero of=fill2 bs=1 status=none count=99999 || true',
    )
    expect(await failure({}, small)).toMatchObject({ code: 'disk_full' })
    expect(await leftIn(small)).toEqual([])
  })

  it('a caller that cancels', async () => {
    const stop = new AbortController()
    const options = { ...all.options, signal: stop.signal, onProgress: () => stop.abort() }
    await expect(bootstrapOpencode(handle, options)).rejects.toMatchObject({ code: 'aborted' })
    const later = new AbortController()
    const copying = bootstrapOpencode(handle, {
      ...all.options,
      signal: later.signal,
      onProgress: ({ stage }) => {
        if (stage === 'copy') setTimeout(() => later.abort(), 200)
      },
    })
    await expect(copying).rejects.toMatchObject({ code: 'aborted' })
    expect(await leftIn(handle)).toEqual([])
    const third = new AbortController()
    const waiting = bootstrapOpencode(handle, {
      ...all.options,
      signal: third.signal,
      onProgress: ({ stage }) => {
        if (stage === 'wait') setTimeout(() => third.abort(), 500)
      },
    })
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
    expect(await sh(handle, 'ps -eo args= | grep "[o]pencode serve" || true')).toBe('')
  }, 60_000)

  it('options that are wrong', async () => {
    for (const given of [
      { port: 0 },
      { opencodeVersion: 'latest' },
      { password: 'short' },
      { deadlineMs: -1 },
      { binary: '/nonexistent/opencode' },
      { envVars: { OPENCODE_SERVER_PASSWORD: 'x' } },
      { credentials: [{ variable: 'NOT_SET_ANYWHERE' }] },
    ])
      expect(await failure(given)).toMatchObject({ code: 'invalid_argument' })
  })
})
