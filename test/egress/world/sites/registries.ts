/** Registries of npm, pip, cargo (sparse) and Go, each with one package named `leaf`. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { missing, type Site, text } from './site.ts'

export function openRegistries(folder: string): Readonly<Record<string, Site>> {
  execFileSync('/usr/bin/python3', [join(import.meta.dirname, 'packages.py'), folder])
  const file = (name: string) => readFileSync(join(folder, name))
  const served = (routes: Readonly<Record<string, () => string | Buffer>>): Site => {
    return (request, _, response) => {
      const path = new URL(request.url ?? '/', 'http://site').pathname
      const found = routes[path]
      if (!found) return missing(response)
      text(response, found(), path.endsWith('/') ? 'text/html' : 'application/json')
    }
  }
  const digest = (name: string, algorithm: string, encoding: 'hex' | 'base64') =>
    createHash(algorithm).update(file(name)).digest(encoding)

  const npm = 'https://npm.allowed.example'
  const version = {
    name: 'leaf',
    version: '1.0.0',
    main: 'index.js',
    dist: {
      tarball: `${npm}/leaf/-/leaf-1.0.0.tgz`,
      integrity: `sha512-${digest('leaf.tgz', 'sha512', 'base64')}`,
    },
  }
  const crate = {
    name: 'leaf',
    vers: '1.0.0',
    deps: [],
    features: {},
    yanked: false,
    cksum: digest('leaf.crate', 'sha256', 'hex'),
  }
  const go = '/go.allowed.example/leaf/@v'
  return {
    'npm.allowed.example': served({
      '/leaf': () =>
        JSON.stringify({ name: 'leaf', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } }),
      '/leaf/-/leaf-1.0.0.tgz': () => file('leaf.tgz'),
    }),
    'pypi.allowed.example': served({
      '/simple/leaf/': () =>
        '<!DOCTYPE html><html><body><a href="/leaf-1.0-py3-none-any.whl">leaf-1.0-py3-none-any.whl</a></body></html>',
      '/leaf-1.0-py3-none-any.whl': () => file('leaf.whl'),
    }),
    'crates.allowed.example': served({
      '/config.json': () => JSON.stringify({ dl: 'https://crates.allowed.example/dl' }),
      '/le/af/leaf': () => JSON.stringify(crate),
      '/dl/leaf/1.0.0/download': () => file('leaf.crate'),
    }),
    'go.allowed.example': served({
      [`${go}/list`]: () => 'v1.0.0\n',
      [`${go}/v1.0.0.info`]: () => JSON.stringify({ Version: 'v1.0.0', Time: '2026-01-01T00:00:00Z' }),
      [`${go}/v1.0.0.mod`]: () => 'module go.allowed.example/leaf\n\ngo 1.20\n',
      [`${go}/v1.0.0.zip`]: () => file('leaf-go.zip'),
    }),
  }
}
