import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { programsIn, programsOfEnv } from './programs.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'layers-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

/** A layer of files; `-> target` makes a symbolic link. */
function layer(name: string, files: Record<string, string>, opaque: readonly string[] = []) {
  const folder = join(root, name)
  mkdirSync(folder)
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    if (text.startsWith('-> ')) symlinkSync(text.slice(3), file)
    else writeFileSync(file, text)
  }
  return { folder, opaque: new Set(opaque) }
}

const status = (version: string, state = 'install ok installed') =>
  `Package: libc6\nStatus: install ok installed\nVersion: 2.36\n\nPackage: nodejs\nStatus: ${state}\nVersion: ${version}\n\nPackage: zlib\nStatus: install ok installed\nVersion: 1.0\n`
const header = (major: number) =>
  `#define NODE_MAJOR_VERSION ${major}\n#define NODE_MINOR_VERSION 3\n#define NODE_PATCH_VERSION 0\n`

describe('programsIn', () => {
  it('reads the versions of Debian’s packages and of official images', () => {
    const debian = layer('debian', {
      'usr/bin/node': '',
      'var/lib/dpkg/status': status('1:20.19.2+dfsg-1'),
      'usr/bin/python3': '-> python3.13',
      'usr/bin/python3.13': '',
    })
    expect(programsIn([debian], {})).toEqual({ node: '20.19.2', python: '3.13' })
    const official = layer('official', {
      'usr/local/bin/node': '',
      'usr/local/include/node/node_version.h': header(24),
      'usr/local/bin/python3': '-> python3.14',
      'usr/local/bin/python3.14': '',
    })
    expect(programsIn([official, debian], {})).toEqual({ node: '24.3.0', python: '3.14' })
    const slim = layer('slim', { 'usr/local/bin/node': '' })
    expect(programsIn([slim], { NODE_VERSION: '22.1.0' })).toEqual({ node: '22.1.0' })
  })

  it('does not believe a statement about a program that is not there', () => {
    const env = { NODE_VERSION: '24.0.0', PYTHON_VERSION: '3.13.0' }
    expect(programsIn([layer('empty', { 'etc/x': '' })], env)).toEqual({})
    const removed = layer('removed', {
      'usr/bin/node': '',
      'var/lib/dpkg/status': status('20.1.0', 'deinstall ok config-files'),
      'usr/bin/python3': '-> python3.13',
    })
    expect(programsIn([removed], env)).toEqual({})
    const below = layer('below', {
      'usr/local/bin/node': '',
      'usr/local/include/node/node_version.h': header(24),
    })
    const hides = layer('hides', { 'usr/local/x': '' }, ['usr/local'])
    expect(programsIn([hides, below], env)).toEqual({})
  })

  it('follows links inside the image only, and survives loops and large files', () => {
    const outside = join(root, 'outside.h')
    writeFileSync(outside, header(24))
    const escaping = layer('escaping', {
      'usr/local/bin/node': '',
      'usr/local/include/node/node_version.h': `-> ../../../../../../../../../../..${outside}`,
      'usr/local/bin/python3': '-> python3',
    })
    expect(programsIn([escaping], {})).toEqual({})
    const large = layer('large', {
      'usr/local/bin/node': '',
      'usr/local/include/node/node_version.h': header(24) + ' '.repeat(2 * 1024 * 1024),
    })
    expect(programsIn([large], {})).toEqual({})
  })
})

it('programsOfEnv takes versions only', () => {
  expect(programsOfEnv({ NODE_VERSION: '24.1.0', PYTHON_VERSION: '$(x)' })).toEqual({ node: '24.1.0' })
})
