import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { settingsOf } from '../options.ts'
import { keygen } from '../test-helper.ts'
import {
  fingerprint,
  isNamed,
  judge,
  keyType,
  linesFor,
  parseKnownHosts,
  preferredAlgorithms,
} from './known-hosts.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-known-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function newKey(name: string, type = 'ed25519'): { line: string; key: Buffer; file: string } {
  const file = path.join(folder, name)
  keygen(file, type)
  const [kind, encoded] = readFileSync(`${file}.pub`, 'utf8').split(' ')
  return { line: `${kind} ${encoded}`, key: Buffer.from(encoded!, 'base64'), file: `${file}.pub` }
}

const [a, b, rsa] = [newKey('a'), newKey('b'), newKey('c', 'rsa')]
const ask = (text: string, host: string, port: number, key = a.key) =>
  judge(linesFor(parseKnownHosts(text), host, port), key)

describe('known_hosts', () => {
  it('matches a host by name, and by name and port', () => {
    expect(ask(`build.example ${a.line}`, 'build.example', 22)).toBe('known')
    expect(ask(`build.example ${a.line}`, 'BUILD.example', 22)).toBe('known')
    expect(ask(`build.example ${a.line}`, 'build.example', 2222)).toBe('unknown')
    expect(ask(`[build.example]:2222 ${a.line}`, 'build.example', 2222)).toBe('known')
    expect(ask(`[build.example]:2222 ${a.line}`, 'build.example', 22)).toBe('unknown')
    expect(ask(`[::1]:2222 ${a.line}`, '::1', 2222)).toBe('known')
  })

  it('refuses another key, also of another type', () => {
    expect(ask(`build.example ${b.line}`, 'build.example', 22)).toBe('changed')
    expect(ask(`build.example ${rsa.line}`, 'build.example', 22)).toBe('changed')
    expect(ask(`build.example ${b.line}\nbuild.example ${a.line}`, 'build.example', 22)).toBe('known')
  })

  it('reads names hashed by ssh-keygen -H', () => {
    const file = path.join(folder, 'hashed')
    writeFileSync(file, `build.example ${a.line}\n[build.example]:2222 ${b.line}\n`)
    execFileSync('ssh-keygen', ['-H', '-f', file], { stdio: 'ignore' })
    const text = readFileSync(file, 'utf8')
    expect(text).not.toContain('build.example')
    expect(ask(text, 'build.example', 22)).toBe('known')
    expect(ask(text, 'build.example', 2222)).toBe('changed')
    expect(ask(text, 'build.example', 2222, b.key)).toBe('known')
    expect(ask(text, 'other.example', 22)).toBe('unknown')
  })

  it('follows patterns and their exceptions', () => {
    const text = `*.example,!bad.example,10.0.0.? ${a.line}`
    expect(ask(text, 'good.example', 22)).toBe('known')
    expect(ask(text, 'bad.example', 22)).toBe('unknown')
    expect(ask(text, '10.0.0.7', 22)).toBe('known')
    expect(ask(text, '10.0.0.77', 22)).toBe('unknown')
    expect(ask(`a.example ${a.line}`, 'axexample', 22)).toBe('unknown')
  })

  it('refuses a revoked key even if it is known, and ignores comments, authorities and incomplete lines', () => {
    const text = `# a comment\n\n@revoked * ${a.line}\nbuild.example ${a.line}\nbuild.example ssh-ed25519\n`
    expect(ask(text, 'build.example', 22)).toBe('revoked')
    expect(ask(`@cert-authority * ${a.line}`, 'build.example', 22)).toBe('unknown')
  })

  it('formats fingerprints like ssh-keygen', () => {
    const printed = execFileSync('ssh-keygen', ['-lf', a.file], { encoding: 'utf8' }).split(' ')[1]
    expect(fingerprint(a.key)).toBe(printed)
    expect([keyType(a.key), keyType(rsa.key), keyType(Buffer.alloc(2))]).toEqual([
      'ssh-ed25519',
      'ssh-rsa',
      '',
    ])
    expect(isNamed([printed!], a.key)).toBe(true)
    expect(isNamed([a.line, `${a.line} comment`], a.key)).toBe(true)
    expect(isNamed([fingerprint(b.key), 'SHA256:', ''], a.key)).toBe(false)
  })

  it('prefers the key types in known_hosts', () => {
    const lines = linesFor(parseKnownHosts(`h ${rsa.line}`), 'h', 22)
    expect(preferredAlgorithms(lines)?.[0]).toBe('rsa-sha2-512')
    expect(preferredAlgorithms([])).toBeUndefined()
  })
})

describe('options', () => {
  it('refuses invalid values', () => {
    const refused = (options: object) =>
      expect(() => settingsOf(options as never)).toThrow(
        expect.objectContaining({ code: 'invalid_argument' }),
      )
    refused({})
    refused({ host: '' })
    refused({ host: '-oProxyCommand=x' })
    refused({ host: 'a b' })
    refused({ host: 'a', port: 0 })
    refused({ host: 'a', maxSessions: 1 })
    refused({ host: 'a', connectTimeoutMs: 0 })
    refused({ host: 'a', privateKey: 'x', privateKeyPath: 'y' })
    refused({ host: 'a', privatekey: 'x' })
    expect(() => settingsOf({ host: 'a' }, {})).toThrow(/account name/)
  })

  it('uses the agent of the environment only where no key is given', () => {
    const env = { USER: 'me', SSH_AUTH_SOCK: '/agent' }
    expect(settingsOf({ host: 'a' }, env).agent).toBe('/agent')
    expect(settingsOf({ host: 'a', privateKeyPath: '/key' }, env).agent).toBeUndefined()
    expect(settingsOf({ host: 'a', agent: false }, env).agent).toBeUndefined()
    expect(settingsOf({ host: 'a', privateKeyPath: '/key', agent: '/other' }, env).agent).toBe('/other')
  })
})
