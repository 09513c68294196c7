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

  it('takes relative paths, absolute ones below the root, and the root itself', async () => {
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
    'refuses the link %s, which leads out',
    async (given) => {
      await expect(at(given)).rejects.toMatchObject(outside)
    },
  )

  it('refuses a root whose name merely begins the same', async () => {
    await expect(at(`${root}-beside/x`)).rejects.toMatchObject(outside)
  })

  it('follows links that stay inside, also absolute ones', async () => {
    expect(await at('inside/file')).toBe(path.join(root, 'folder/deep/file'))
    expect(await at('back/file')).toBe(path.join(root, 'folder/file'))
    // `..` after a link is meant from where the link leads.
    expect(await at('inside/../x')).toBe(path.join(root, 'folder/x'))
  })

  it('leaves the last link alone when asked to', async () => {
    expect(await at('absolute', false)).toBe(path.join(root, 'absolute'))
    await expect(at('up/secret', false)).rejects.toMatchObject(outside)
  })

  it('says so when links go round in circles', async () => {
    await expect(at('a/x')).rejects.toMatchObject({ code: 'invalid_argument' })
  })
})
