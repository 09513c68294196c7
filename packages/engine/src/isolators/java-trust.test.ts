import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { rootCertificates } from 'node:tls'
import { afterAll, describe, expect, it } from 'vitest'
import { javaStore } from './java-trust.ts'
import { hasProgram } from './oci/launch/find-program.ts'

const base = mkdtempSync(path.join(tmpdir(), 'sandkasten-java-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))

const [first, second, third] = rootCertificates
const bundle = () => `# a comment\n${first}\n${second}\n`

describe('javaStore()', () => {
  it('has the certificates of the bundle and the authority', () => {
    const store = javaStore(undefined, bundle, third!)
    expect(names(store)).toEqual(['certificate-1', 'certificate-2', 'sandkasten'])
  })

  it('keeps the entries of the image’s file', () => {
    const image = javaStore(undefined, bundle, first!)
    const store = javaStore(image, () => '', third!)
    expect(names(store)).toEqual(['certificate-1', 'certificate-2', 'sandkasten', 'sandkasten'])
  })

  it.each([
    ['empty', Buffer.alloc(0)],
    ['short', Buffer.from('feedfeed00000002', 'hex')],
    ['PKCS12', Buffer.from('308206f40201033082'.repeat(9), 'hex')],
  ])('replaces a file of the image that is %s', (_, image) => {
    expect(names(javaStore(image, bundle, third!))).toHaveLength(3)
  })

  const missing = hasProgram('keytool') ? undefined : 'keytool is not installed'
  it.skipIf(missing)(`Java reads it${missing ? ` (skipped: ${missing})` : ''}`, () => {
    const file = path.join(base, 'cacerts')
    writeFileSync(file, javaStore(undefined, bundle, third!))
    const listed = execFileSync('keytool', ['-list', '-keystore', file, '-storepass', 'changeit'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    expect(listed).toContain('3 entries')
    expect(listed).toMatch(/sandkasten, .*trustedCertEntry/)
  })
})

/** The names of all entries, as a reader of the format finds them. */
function names(store: Buffer): string[] {
  const found: string[] = []
  let at = 12
  for (let left = store.readUInt32BE(8); left > 0; left -= 1) {
    const length = store.readUInt16BE(at + 4)
    found.push(store.toString('latin1', at + 6, at + 6 + length))
    at += 6 + length + 8
    at += 2 + store.readUInt16BE(at)
    at += 4 + store.readUInt32BE(at)
  }
  expect(store.length - at).toBe(20)
  return found
}
