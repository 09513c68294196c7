import { mkdir, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { confine } from './paths.ts'
import { temporaryFolder } from './test-helper.ts'

describe('confine', async () => {
  const base = await temporaryFolder()
  const root = path.join(base, 'root')
  const at = (given: string, follow = true) => confine(root, given, { follow })
  const outside = { code: 'path_outside' }

  beforeAll(async () => {
    await mkdir(path.join(root, 'folder/deep'), { recursive: true })
    await writeFile(path.join(base, 'secret'), 'x')
    await mkdir(path.join(base, 'root-beside'))
    const links = {
      inside: 'folder/deep',
      up: '..',
      absolute: path.join(base, 'secret'),
      dangling: path.join(base, 'nothing'),
      back: path.join(root, 'folder'),
      chain: 'up',
      a: 'b',
      b: 'a',
      'folder/climb': '../../secret',
    }
    for (const [name, target] of Object.entries(links)) await symlink(target, path.join(root, name))
  })

  it('accepts relative paths, absolute paths below the root, and the root itself', async () => {
    expect(await at('folder/x')).toBe(path.join(root, 'folder/x'))
    expect(await at(path.join(root, 'new'))).toBe(path.join(root, 'new'))
    expect(await at('.')).toBe(root)
    expect(await at(root)).toBe(root)
    expect(await at('folder/deep/../../x')).toBe(path.join(root, 'x'))
  })

  it.each([
    '..',
    '../secret',
    'folder/../../secret',
    '/etc/passwd',
    '/',
    '../root-beside/x',
    'missing/../../secret',
  ])('refuses %s (135)', async (given) => {
    await expect(at(given)).rejects.toMatchObject(outside)
  })

  it.each(['up', 'up/secret', 'absolute', 'dangling', 'dangling/x', 'chain/secret', 'folder/climb'])(
    'refuses the link %s to the outside',
    async (given) => {
      await expect(at(given)).rejects.toMatchObject(outside)
    },
  )

  it('refuses a sibling of the root with the same prefix', async () => {
    await expect(at(`${root}-beside/x`)).rejects.toMatchObject(outside)
  })

  it('follows links that stay inside, also absolute links', async () => {
    expect(await at('inside/file')).toBe(path.join(root, 'folder/deep/file'))
    expect(await at('back/file')).toBe(path.join(root, 'folder/file'))
    // `..` after a link refers to the parent of the link's target.
    expect(await at('inside/../x')).toBe(path.join(root, 'folder/x'))
  })

  it('does not follow the last link with follow: false', async () => {
    expect(await at('absolute', false)).toBe(path.join(root, 'absolute'))
    await expect(at('up/secret', false)).rejects.toMatchObject(outside)
  })

  it('reports circular links', async () => {
    await expect(at('a/x')).rejects.toMatchObject({ code: 'invalid_argument' })
  })
})
