import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { hostImage } from './host.ts'

let folder: string
let host: string

beforeEach((ctx) => {
  ctx.skip(process.getuid?.() !== 0, 'needs root: the skeleton has folders of several owners')
  folder = mkdtempSync(join(tmpdir(), 'image-'))
  host = join(folder, 'host')
  for (const path of [
    'usr/bin',
    'usr/lib',
    'etc/ssl/certs',
    'etc/ssl/private',
    'etc/alternatives',
    'home/ann',
    'root',
    'var/lib/secret',
    'opt/x',
  ]) {
    mkdirSync(join(host, path), { recursive: true })
  }
  symlinkSync('usr/bin', join(host, 'bin'))
  symlinkSync('usr/lib', join(host, 'lib'))
  mkdirSync(join(host, 'sbin'))
  const files = {
    'etc/passwd': 'ann:x:1000:',
    'etc/shadow': 'ann:hash',
    'etc/ld.so.cache': 'cache',
    'etc/ssl/certs/ca.pem': 'ca',
    'etc/ssl/private/key.pem': 'key',
    'etc/npmrc': '//registry:_authToken=t',
    'etc/environment': 'TOKEN=t',
    'etc/hosts': '10.0.0.1 intern',
    'etc/services': 'http 80/tcp',
    'etc/secret': 's',
  }
  for (const [path, text] of Object.entries(files)) writeFileSync(join(host, path), text, { mode: 0o644 })
  writeFileSync(join(host, 'etc/ssl/certs/private.pem'), 'key', { mode: 0o640 })
  symlinkSync('/usr/share/ca.pem', join(host, 'etc/ssl/certs/link.pem'))
  writeFileSync(join(host, 'etc/mime.types'), 'only for root', { mode: 0o600 })
})
afterEach(() => folder && rmSync(folder, { recursive: true, force: true }))

it('contains listed, world-readable files and generated ones, and no others', () => {
  const { layer, binds } = hostImage(join(folder, 'images'), host)
  expect(binds).toEqual(['usr', 'sbin'].map((name) => ({ source: join(host, name), target: `/${name}` })))
  expect(readdirSync(join(layer, 'etc')).sort()).toEqual([
    'alternatives',
    'group',
    'hostname',
    'hosts',
    'ld.so.cache',
    'machine-id',
    'mtab',
    'nsswitch.conf',
    'passwd',
    'profile',
    'resolv.conf',
    'services',
    'ssl',
  ])
  expect(readdirSync(join(layer, 'etc/ssl'))).toEqual(['certs'])
  expect(readdirSync(join(layer, 'etc/ssl/certs')).sort()).toEqual(['ca.pem', 'link.pem'])
  expect(readlinkSync(join(layer, 'etc/ssl/certs/link.pem'))).toBe('/usr/share/ca.pem')
  expect(readFileSync(join(layer, 'etc/passwd'), 'utf8')).toMatch(/^root:.*\nsandbox:x:1000:1000:/)
  expect(readFileSync(join(layer, 'etc/hosts'), 'utf8')).not.toContain('intern')
  expect(readlinkSync(join(layer, 'bin'))).toBe('usr/bin')
  for (const path of [
    'usr',
    'root',
    'opt',
    'srv',
    'mnt',
    'sys',
    'proc',
    'var/lib',
    'home/sandbox',
    'workspace',
  ]) {
    expect(readdirSync(join(layer, path)), path).toEqual([])
  }
  expect(statSync(join(layer, 'workspace')).uid).toBe(1000)
  expect(statSync(join(layer, 'tmp')).mode & 0o7777).toBe(0o1777)
})

it('is created once, and again after the machine’s files have changed', () => {
  const images = join(folder, 'images')
  const { layer } = hostImage(images, host)
  expect(hostImage(images, host).layer).toBe(layer)
  expect(readdirSync(images)).toHaveLength(1)
  writeFileSync(join(host, 'etc/ld.so.cache'), 'another cache')
  utimesSync(join(host, 'etc/ld.so.cache'), 1, 1)
  const next = hostImage(images, host).layer
  expect(next).not.toBe(layer)
  expect(existsSync(layer)).toBe(true)
  expect(readFileSync(join(next, 'etc/ld.so.cache'), 'utf8')).toBe('another cache')
})
