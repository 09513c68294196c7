import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { matchesOf, searchScript } from './search-output.ts'

describe('the output of a search', () => {
  it('of ripgrep, also for what is not UTF-8', () => {
    const line = (path: object, lines: object) =>
      JSON.stringify({ type: 'match', data: { path, lines, line_number: 7 } })
    const output = [
      '{"type":"begin","data":{}}',
      line({ text: 'a:1:b\n' }, { text: 'found\n' }),
      line({ bytes: Buffer.from('c').toString('base64') }, { bytes: Buffer.from('d').toString('base64') }),
      '[… 99 bytes left out …]',
      '{"type":"match","data":{"path":{"te',
    ].join('\n')
    expect(matchesOf('rg', output)).toEqual([
      { path: 'a:1:b\n', line: 7, text: 'found\n' },
      { path: 'c', line: 7, text: 'd' },
    ])
  })

  it('of GNU grep, with names that contain colons', () => {
    expect(matchesOf('gnu', 'a:1:b\x003:x:y\ncut')).toEqual([{ path: 'a:1:b', line: 3, text: 'x:y' }])
  })

  it('of other greps', () => {
    expect(matchesOf('plain', 'a/b:3:x:y\nnot a match\n')).toEqual([{ path: 'a/b', line: 3, text: 'x:y' }])
  })
})

describe('the script', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-search-'))
    writeFileSync(path.join(folder, 'a.ts'), 'const -x = 1\nCONST\n')
    writeFileSync(path.join(folder, 'b.md'), 'const\n')
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  const search = (pattern: string, glob = '', flag = '') => {
    const text = execFileSync('sh', ['-c', searchScript, 'sh', pattern, folder, glob, flag], {
      encoding: 'utf8',
    })
    const at = text.indexOf('\n')
    return matchesOf(text.slice(0, at), text.slice(at + 1)).map(
      ({ path: name, line }) => `${path.basename(name)}:${line}`,
    )
  }

  it('takes pattern, glob and case as data', () => {
    expect(search('const').sort()).toEqual(['a.ts:1', 'b.md:1'])
    expect(search('const', '', '-i').sort()).toEqual(['a.ts:1', 'a.ts:2', 'b.md:1'])
    expect(search('const', '*.md')).toEqual(['b.md:1'])
    expect(search('-x')).toEqual(['a.ts:1'])
    expect(search('\\d$')).toEqual(['a.ts:1'])
  })
})
