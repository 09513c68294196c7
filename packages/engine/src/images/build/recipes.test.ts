import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { aptSources } from './apt-sources.ts'
import { readRecipe, recipeNames } from './recipes.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'recipes-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const images = fileURLToPath(new URL('../../../../../images', import.meta.url))

describe('recipes', () => {
  it('match the list in docs/images.md', () => {
    expect(recipeNames()).toEqual(['base', 'node', 'python'])
  })

  it.each(['base', 'node', 'python'])('%s matches its Dockerfile', (name) => {
    const { packages, env, workdir } = readRecipe(name)
    const text = readFileSync(join(images, name, 'Dockerfile'), 'utf8')
    const installed = /--no-install-recommends \\\n([\s\S]*?) && rm/.exec(text)![1]!
    expect(installed.replaceAll('\\', '').split(/\s+/).filter(Boolean)).toEqual(packages)
    expect(/^ENV (.*)$/m.exec(text)![1]!.split(' ').sort()).toEqual(
      Object.entries(env)
        .map(([key, value]) => `${key}=${value}`)
        .sort(),
    )
    expect(text).toContain(`WORKDIR ${workdir}\n`)
  })

  it('are read from any folder, and errors name the field', () => {
    const write = (recipe: unknown) => writeFileSync(join(folder, 'recipe.json'), JSON.stringify(recipe))
    write({ extends: 'base', packages: ['gcc'], env: { A: '1' } })
    expect(readRecipe(folder)).toMatchObject({
      packages: expect.arrayContaining(['gcc', 'git']),
      env: { A: '1' },
    })
    for (const [recipe, field] of [
      [{ packages: ['--hook=x'] }, 'packages'],
      [{ packages: 'git' }, 'packages'],
      [{ env: { A: 1 } }, 'env'],
      [{ workdir: 3 }, 'workdir'],
      [{ extends: folder }, 'extends'],
    ] as const) {
      write(recipe)
      expect(() => readRecipe(folder)).toThrow(
        expect.objectContaining({ code: 'invalid_argument', message: expect.stringContaining(field) }),
      )
    }
    expect(() => readRecipe('bsae')).toThrow(
      expect.objectContaining({ code: 'not_found', hint: expect.stringContaining('Did you mean base?') }),
    )
  })
})

describe('the machine’s apt sources', () => {
  function machine(files: Record<string, string>): string {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(join(folder, name, '..'), { recursive: true })
      writeFileSync(join(folder, name), text)
    }
    return folder
  }

  it('are used only if they are of the machine’s own release', () => {
    const root = machine({
      'etc/os-release': 'ID=debian\nVERSION_CODENAME=bookworm\n',
      'etc/apt/sources.list':
        '# a comment\ndeb [signed-by=/k.gpg] mirror://m/debian bookworm main contrib\ndeb-src mirror://m bookworm main\ndeb mirror://other stable main\n',
      'etc/apt/sources.list.d/a.list': 'deb mirror://m/security bookworm-security main\n',
      'etc/apt/sources.list.d/b.list.disabled': 'deb mirror://disabled bookworm main\n',
      'etc/apt/sources.list.d/c.sources':
        'Types: deb deb-src\n# who\nURIs: mirror://m/debian\nSuites: bookworm bookworm-backports bookworm-updates\nComponents: main\n\nTypes: deb\nURIs: mirror://vendor\nSuites: nodistro\nComponents: main\n\nEnabled: no\nTypes: deb\nURIs: mirror://off\nSuites: bookworm\n',
    })
    expect(aptSources(root)).toEqual({
      suite: 'bookworm',
      list: 'deb [signed-by=/k.gpg] mirror://m/debian bookworm main contrib\ndeb mirror://m/security bookworm-security main',
      sources: 'Types: deb\nURIs: mirror://m/debian\nSuites: bookworm bookworm-updates\nComponents: main',
    })
  })

  it('missing recipes are an error with a hint', () => {
    expect(() => aptSources(machine({ 'etc/os-release': 'ID=other\n' }))).toThrow(
      expect.objectContaining({ code: 'unsupported', hint: expect.stringContaining('Dockerfile') }),
    )
  })
})
