import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newKey, textOf } from './key.ts'
import { readKeyFile, writeKeyFile } from './key-file.ts'
import { keySource } from './key-source.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'sk-key-'))
  file = path.join(folder, 'registry.key')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const refused = (why: string | RegExp) =>
  expect.objectContaining({ code: 'permission_denied', message: expect.stringMatching(why) as string })

describe('a key file', () => {
  it('keeps keys in order, and only its owner can read it', () => {
    const keys = [newKey(), newKey()]
    const before = process.umask(0)
    try {
      writeKeyFile(file, keys)
    } finally {
      process.umask(before)
    }
    expect(readKeyFile(file).map(({ id }) => id)).toEqual(keys.map(({ id }) => id))
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['registry.key'])
  })

  it('is empty if it does not exist', () => {
    expect(readKeyFile(file)).toEqual([])
  })

  it('is written although a process was killed while it wrote', () => {
    writeFileSync(`${file}.new`, 'half', { mode: 0o644 })
    writeKeyFile(file, [newKey()])
    expect(readdirSync(folder)).toEqual(['registry.key'])
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it.each([0o640, 0o604, 0o620, 0o602])('with the mode %o is refused', (mode) => {
    writeKeyFile(file, [newKey()])
    chmodSync(file, mode)
    expect(() => readKeyFile(file)).toThrow(refused('can be read or changed by other accounts'))
  })

  it('is refused if it is a symbolic link, a folder or a pipe', () => {
    const other = path.join(folder, 'other')
    writeKeyFile(other, [newKey()])
    symlinkSync(other, file)
    expect(() => readKeyFile(file)).toThrow(refused('is a symbolic link'))
    rmSync(file)
    mkdirSync(file)
    expect(() => readKeyFile(file)).toThrow(refused('is not a file'))
    rmSync(file, { recursive: true })
    execFileSync('mkfifo', ['-m', '600', file])
    expect(() => readKeyFile(file)).toThrow(refused('is not a file'))
  })

  it.skipIf(process.getuid?.() !== 0)('of another account is refused (needs root)', () => {
    writeKeyFile(file, [newKey()])
    chownSync(file, 65534, 65534)
    expect(() => readKeyFile(file)).toThrow(refused('belongs to another account'))
  })

  it.each([
    '',
    '{}',
    '{"keys":[]}',
    '{"keys":[1]}',
    '{"keys":["a-secret-that-is-no-key"]}',
    'a-secret-that-is-no-json',
    'x'.repeat(5000),
  ])('that is damaged is refused, without its content (%#)', (content) => {
    writeFileSync(file, content, { mode: 0o600 })
    try {
      readKeyFile(file)
      expect.unreachable()
    } catch (error) {
      expect(error).toMatchObject({ name: 'SandboxError', message: expect.stringContaining(file) as string })
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('a-secret')
    }
  })
})

describe('the source of keys', () => {
  const [one, other] = [newKey(), newKey()]

  it('is the variable if it is set, and cannot save', () => {
    const source = keySource({
      file,
      env: { SANDKASTEN_SECRET_KEY: textOf(one), SANDKASTEN_SECRET_KEY_OLD: textOf(other) },
    })
    expect(source.load().map(({ id }) => id)).toEqual([one.id, other.id])
    expect(source.save).toBeUndefined()
    expect(readdirSync(folder)).toEqual([])
  })

  it('is the file otherwise', () => {
    const source = keySource({ file, env: { SANDKASTEN_SECRET_KEY: '' } })
    expect(source.load()).toEqual([])
    source.save?.([one])
    expect(source.load().map(({ id }) => id)).toEqual([one.id])
  })

  it('refuses an old key without a new one, and malformed keys by their variable', () => {
    const env = { SANDKASTEN_SECRET_KEY_OLD: textOf(other) }
    expect(() => keySource({ file, env })).toThrow(/SANDKASTEN_SECRET_KEY is not/)
    expect(() => keySource({ file, env: { ...env, SANDKASTEN_SECRET_KEY: 'x' } })).toThrow(
      /^SANDKASTEN_SECRET_KEY is not a key/,
    )
  })
})
