import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { bundleOf, foldersOf, trustFiles } from './trust.ts'

const base = mkdtempSync(path.join(tmpdir(), 'sandkasten-trust-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))

const pem = (text: string) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----`
const authority = `${pem('ours')}\n`

function layer(name: string, files: Record<string, string>, links: Record<string, string> = {}): string {
  const folder = path.join(base, name)
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, file)), { recursive: true })
    writeFileSync(path.join(folder, file), text)
  }
  for (const [link, target] of Object.entries(links)) {
    mkdirSync(path.dirname(path.join(folder, link)), { recursive: true })
    symlinkSync(target, path.join(folder, link))
  }
  return folder
}

const paths = (files: ReturnType<typeof trustFiles>) => files.map((file) => file.path)

it('adds the authority to Debian’s file, and where update-ca-certificates finds it', () => {
  const debian = layer('debian', { 'etc/ssl/certs/ca-certificates.crt': `# a comment\n${pem('theirs')}\n` })
  const files = trustFiles(authority, [debian], { ownPrograms: true })
  expect(files).toEqual([
    {
      path: 'etc/ssl/certs/ca-certificates.crt',
      source: path.join(debian, 'etc/ssl/certs/ca-certificates.crt'),
      text: `\n# Sandkasten\n${authority}`,
    },
    { path: 'etc/sandkasten/ca.pem', text: authority },
    { path: 'usr/local/share/ca-certificates/sandkasten.crt', text: authority },
  ])
  expect(foldersOf(files)).toEqual([
    ...['etc', 'etc/ssl', 'etc/ssl/certs', 'etc/sandkasten'],
    ...['usr', 'usr/local', 'usr/local/share', 'usr/local/share/ca-certificates'],
  ])
  expect(paths(trustFiles(authority, [debian], { ownPrograms: false }))).toHaveLength(2)
})

it('follows the links of Red Hat’s and Alpine’s images, inside the image', () => {
  const bundle = 'etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem'
  const redHat = layer(
    'redhat',
    { [bundle]: pem('redhat') },
    { 'etc/pki/tls/certs/ca-bundle.crt': `/${bundle}`, 'etc/ssl/certs': '/etc/pki/tls/certs' },
  )
  expect(paths(trustFiles(authority, [redHat], { ownPrograms: false }))).toEqual([
    'etc/pki/tls/certs/ca-certificates.crt',
    bundle,
    'etc/sandkasten/ca.pem',
  ])
  const alpine = layer(
    'alpine',
    { 'etc/ssl/certs/ca-certificates.crt': pem('alpine') },
    { 'etc/ssl/cert.pem': 'certs/ca-certificates.crt' },
  )
  expect(paths(trustFiles(authority, [alpine], { ownPrograms: false }))).toEqual([
    'etc/ssl/certs/ca-certificates.crt',
    'etc/sandkasten/ca.pem',
  ])
})

it('reads no file of the machine through a link of the image', () => {
  const secret = layer('machine', { 'key.pem': pem('of-the-machine') })
  const hostile = layer(
    'hostile',
    {},
    { 'etc/ssl/certs/ca-certificates.crt': path.join(secret, 'key.pem'), 'etc/pki': '../../..' },
  )
  const files = trustFiles(authority, [hostile], { ownPrograms: true })
  expect(JSON.stringify(files)).not.toContain('of-the-machine')
  for (const file of files) expect(file.path).not.toMatch(/^\/|\.\./)
})

it('adds to public certificates where the image has none, and never twice', () => {
  const [bundle] = trustFiles(authority, [layer('empty', { 'etc/hostname': 'x' })], { ownPrograms: true })
  expect(bundle!.text.split('BEGIN CERTIFICATE').length).toBeGreaterThan(100)
  expect(bundle!.text.endsWith(authority)).toBe(true)
  const first = bundleOf(pem('theirs'), pem('old'))
  expect(bundleOf(first, authority)).toBe(`${pem('theirs')}\n# Sandkasten\n${authority}`)
})

it('looks up an image that does not change once, and any other each time', () => {
  const changing = layer('changing', { 'etc/hostname': 'x' })
  const count = (immutable: boolean) =>
    trustFiles(authority, [changing], { ownPrograms: false, immutable }).length
  expect([count(true), count(false)]).toEqual([2, 2])
  layer('changing', { 'etc/ssl/cert.pem': pem('later') })
  expect([count(true), count(false)]).toEqual([2, 3])
})
