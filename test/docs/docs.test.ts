import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import { createProvider } from '@sandkasten/sdk/auto'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { capabilityTable } from '../../scripts/capability-table.ts'
import { documents, userDocuments, withSnippets } from '../../scripts/doc-snippets.ts'
import { commands } from '../../scripts/record-readme.ts'
import { settingsTable } from '../../scripts/settings-table.ts'

const root = path.resolve(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')
const examples = globSync('examples/{*,resilience/*,testing/*}.ts', { cwd: root })

describe('examples', () => {
  let home: string
  beforeAll(async () => {
    home = await mkdtemp(path.join(tmpdir(), 'sandkasten-examples-'))
  })
  afterAll(() => rm(home, { recursive: true, force: true }))

  it.for(examples)('%s prints its .out file', async (file, { skip }) => {
    if (read(file).includes("'@sandkasten/engine'") && !(await canIsolate(home)))
      skip('this machine cannot isolate sandboxes')
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
  it.each(userDocuments)('%s shows whole examples, with their imports', (file) => {
    expect(read(file), 'run: node scripts/doc-snippets.ts').toBe(withSnippets(file))
  })

  it.each(documents)('%s links only to files and headings that exist', (file) => {
    for (const [, target, anchor] of read(file).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)/g)) {
      const linked = target ? path.posix.join(path.posix.dirname(file), target) : file
      expect(globSync(linked, { cwd: root }), `${file} → ${target}`).not.toEqual([])
      if (anchor) expect(anchorsOf(linked), `${file} → ${target}#${anchor}`).toContain(anchor)
    }
  })

  it.each(documents)('%s names only files that exist', (file) => {
    const named =
      /`((?:packages|test|runner|scripts|examples|protocol|bench|images|clients|docs)\/[\w./-]+)`/g
    for (const [, target] of read(file).matchAll(named))
      expect(globSync(target!, { cwd: root }), target).not.toEqual([])
  })

  it('docs/providers.md has the abilities that the providers declare', () => {
    expect(read('docs/providers.md'), 'run: node scripts/capability-table.ts').toContain(capabilityTable())
  })

  it('docs/providers.md says whose snapshots end running programs', () => {
    const page = read('docs/providers.md')
    const providers = [
      new EngineProvider({ root: '/nonexistent' }),
      new MemoryProvider(),
      createProvider('daemon', { url: 'http://host', apiKey: 'key' }),
      createProvider('daytona', { apiKey: 'key' }),
      createProvider('e2b', { apiKey: 'key' }),
      createProvider('hopx', { apiKey: 'key' }),
      createProvider('local', {}),
      createProvider('sprites', { token: 't' }),
      createProvider('ssh', { host: 'me@host' }),
      createProvider('vercel', { token: 't', teamId: 't', projectId: 'p' }),
    ]
    const rows = [...page.matchAll(/^\| (.*) \| (?:\*\*)?(true|false)\b/gm)]
    const said = rows.flatMap(([, names, value]) =>
      [...names!.matchAll(/`(\w+)`/g)].map(([, name]) => [name, value === 'true']),
    )
    expect(Object.fromEntries(said)).toEqual(
      Object.fromEntries(providers.map(({ name, snapshotInterrupts }) => [name, snapshotInterrupts])),
    )
  })

  it('docs/providers.md has the settings of the providers', () => {
    expect(read('docs/providers.md'), 'run: node scripts/settings-table.ts').toContain(settingsTable())
  })

  it('the README’s picture shows the commands of its script', () => {
    const shown = [...read('docs/readme.svg').matchAll(/data-command="([^"]*)"/g)].map(([, line]) =>
      line!.replaceAll('&quot;', '"'),
    )
    expect(shown, 'run: node scripts/record-readme.ts').toEqual(commands)
  })

  it('the README fits on one screen', () => {
    expect(read('README.md').split('\n').length).toBeLessThan(90)
  })
})

/** The anchors that GitHub gives to the headings of a document. */
function anchorsOf(file: string): string[] {
  return [...read(file).matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
    title!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )
}
