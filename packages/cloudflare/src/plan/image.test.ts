/**
 * The image, in the documented order. K16: paths are those that wrangler resolves, and version mismatches are
 * detected.
 */
import { describe, expect, test } from 'vitest'
import { problemsOf, project, SHELL, sandbox } from '../../test/project.ts'
import { check, sync } from '../sync.ts'

const DOCKERFILE = 'FROM docker.io/cloudflare/sandbox:0.8.11\n'
const FILE = 'src/server/python.sandbox.ts'
const withImage = (image: string) => sandbox('PythonSandbox', `static image = '${image}'`)

describe('order', () => {
  const files = {
    [FILE]: withImage('a.io/x/y:1'),
    'src/server/python.Dockerfile': DOCKERFILE,
    'wrangler.jsonc': '{}',
  }

  test('static image, then the sibling Dockerfile, then the image of the installed SDK', async () => {
    const { root, write, remove } = project(files)
    const image = async () => (await check({ root })).sandboxes[0]?.image
    expect(await image()).toBe('a.io/x/y:1')
    write({ [FILE]: sandbox('PythonSandbox') })
    expect(await image()).toBe('./src/server/python.Dockerfile')
    remove('src/server/python.Dockerfile')
    expect(await image()).toBe('docker.io/cloudflare/sandbox:0.8.11')
  })
})

describe('K16: writes a path relative to the config’s folder', () => {
  test.each([
    ['beside the source', './box/Dockerfile', 'src/server/box/Dockerfile', './src/server/box/Dockerfile'],
    ['beside the config', './docker/Dockerfile', 'docker/Dockerfile', './docker/Dockerfile'],
    ['upwards from the source', '../Dockerfile', 'src/Dockerfile', './src/Dockerfile'],
    ['without a dot', 'python.Dockerfile', 'src/server/python.Dockerfile', './src/server/python.Dockerfile'],
  ])('%s', async (_, image, dockerfile, expected) => {
    const { root } = project({ [FILE]: withImage(image), [dockerfile]: DOCKERFILE, 'wrangler.jsonc': '{}' })
    expect((await check({ root })).sandboxes[0]?.image).toBe(expected)
  })

  test('with the config in another folder', async () => {
    const { root, read } = project({
      [FILE]: SHELL,
      'src/server/python.Dockerfile': DOCKERFILE,
      'ops/wrangler.jsonc': '{}',
    })
    await sync({ root, config: 'ops/wrangler.jsonc' })
    expect(JSON.parse(read('ops/wrangler.jsonc')).containers[0].image).toBe('../src/server/python.Dockerfile')
    expect(Object.keys(JSON.parse(read('ops/wrangler.sandboxes.json')).sandboxes)).toEqual([
      '../src/server/python.sandbox.ts',
    ])
  })
})

test.each([
  ['a missing Dockerfile', './nowhere/Dockerfile', {}, 'no-dockerfile'],
  ['no tag', 'docker.io/cloudflare/sandbox', {}, 'no-tag'],
  ['a port is not a tag', 'registry:5000/x', {}, 'no-tag'],
  [
    'two Dockerfiles',
    './Dockerfile',
    { Dockerfile: DOCKERFILE, 'src/server/Dockerfile': DOCKERFILE },
    'ambiguous-dockerfile',
  ],
])('refused: %s', async (_, image, more: { [file: string]: string }, code) => {
  const { root } = project({ [FILE]: withImage(image), ...more, 'wrangler.jsonc': '{}' })
  const [problem] = await problemsOf(check({ root }))
  expect(problem).toMatchObject({ code, place: { file: FILE, line: 4, column: 2 } })
})

describe('K16: warns about an image of another version than the SDK', () => {
  test.each([
    ['in the static', withImage('docker.io/cloudflare/sandbox:0.7.0-python'), undefined, FILE, 4],
    [
      'in a Dockerfile',
      sandbox('P'),
      'FROM node:24 AS build\nFROM --platform=linux/amd64 cloudflare/sandbox:0.7.0\n',
      'src/server/python.Dockerfile',
      2,
    ],
    [
      'behind an ARG',
      sandbox('P'),
      'ARG V=0.7.0\n# FROM cloudflare/sandbox:0.1.0\nFROM cloudflare/sandbox:$V-python\n',
      'src/server/python.Dockerfile',
      3,
    ],
  ])('%s', async (_, source, dockerfile, file, line) => {
    const more: { [file: string]: string } = dockerfile ? { 'src/server/python.Dockerfile': dockerfile } : {}
    const { root } = project({ [FILE]: source, ...more, 'wrangler.jsonc': '{}' })
    const { problems } = await check({ root })
    expect(problems).toMatchObject([{ severity: 'warning', code: 'image-drift', place: { file, line } }])
    expect(problems[0]?.fix).toContain('0.8.11')
  })

  test('and one of the same version is not', async () => {
    const { root } = project({
      [FILE]: withImage('cloudflare/sandbox:0.8.11-python'),
      'wrangler.jsonc': '{}',
    })
    expect((await check({ root })).problems).toEqual([])
  })
})

test('writes an explicit latest, with a warning', async () => {
  const { root } = project({ [FILE]: withImage('docker.io/me/box:latest'), 'wrangler.jsonc': '{}' })
  const { problems, sandboxes } = await check({ root })
  expect(sandboxes[0]?.image).toBe('docker.io/me/box:latest')
  expect(problems).toMatchObject([{ code: 'latest' }])
})
