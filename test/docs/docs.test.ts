import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { capabilityTable } from '../../scripts/capability-table.ts'

const root = path.resolve(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')
const documents = [...globSync('*.md', { cwd: root }), ...globSync('docs/**/*.md', { cwd: root })]

const examples = globSync('examples/*.ts', { cwd: root })

describe('examples', () => {
  let home: string
  beforeAll(async () => {
    home = await mkdtemp(path.join(tmpdir(), 'sandkasten-examples-'))
  })
  afterAll(() => rm(home, { recursive: true, force: true }))

  it.for(examples)('%s runs, and prints what is written beside it', async (file, { skip }) => {
    if (file === 'examples/engine.ts' && !(await canIsolate(home))) skip('sandboxes cannot be isolated here')
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=sandkasten-source', path.join(root, file)],
      {
        cwd: home,
        env: { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home },
      },
    )
    expect(stdout).toBe(read(file.replace(/\.ts$/, '.out')))
  })
})

async function canIsolate(folder: string): Promise<boolean> {
  try {
    return await new EngineProvider({ root: path.join(folder, 'probe') }).healthCheck()
  } catch {
    return false
  }
}

describe('documents', () => {
  it.each(documents)('%s shows only code that is part of an example', (file) => {
    for (const [, source, code] of read(file).matchAll(/(?:<!-- (\S+) -->\n)?```ts\n(.*?)```/gs)) {
      expect(source, `A block in ${file} does not say which file it is from:\n${code}`).toBeDefined()
      expect(read(source!), `${file} shows code that is not in ${source}`).toContain(code)
    }
  })

  it.each(documents)('%s links only to what is there', (file) => {
    for (const [, target] of read(file).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      expect(
        globSync(path.posix.join(path.posix.dirname(file), target!), { cwd: root }),
        `${file} → ${target}`,
      ).not.toEqual([])
    }
  })

  it('the README’s capability table is what the providers say', () => {
    expect(read('README.md')).toContain(capabilityTable())
  })

  it('the README and the package’s page begin the same', () => {
    expect(read('packages/sdk/README.md').length).toBeGreaterThan(200)
  })
})
