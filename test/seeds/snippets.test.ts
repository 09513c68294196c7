import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const folder = 'test/seeds/snippets'

/**
 * Each file that holds a code block of a seed, and the SHA-256 of the block (`normalized`). A failure means that the
 * file no longer says what its seed says: change the interface, not the snippet.
 */
const blocks: Readonly<Record<string, string>> = {
  'test/seeds/snippets/auto-detect.ts': '43b400cde419512049486d63f3793cf56511a9f38828a19bdab13a32b0bf5791',
  'test/seeds/snippets/bootstrap.ts': 'fd3f057719cb87721448f13c0164c874a6cfb1481142508dd4de66c559500c96',
  'test/seeds/snippets/client.d.ts': 'd64684660a2a4076c90e0cf7814ee816908829b8a2fd3b2e9f75b0248c107ab2',
  'test/seeds/snippets/executor.ts': 'f81f2dad3f4169edf69e5266f831b7df0f27fedf9c57590bb7061c9dafbfa9d9',
  'test/seeds/snippets/full-flow.ts': '266b1db617357e72d9e24e6cbabc9d9d5df3b578bc22f4edfd6f89732b2421cd',
  'test/seeds/snippets/get-executor.ts': 'f04ad9607086cb7c82c180aa009e18c3010fe18cb3c20aed354f3d6e619953a3',
  'test/seeds/snippets/handle.ts': 'bc54c9c0af54174073fabe9d3d57a69951b2072b46fd5069c1aef73c52cff08d',
  'test/seeds/snippets/heartbeat.ts': 'ea6c48d28795295743785192155b7d5ca07732b3571cfcb861924ff74708dd39',
  'test/seeds/snippets/provider.ts': '2d065917a725104febf7a52509fb659d13ec900c457434b9088cd3cca6c03564',
  'test/seeds/snippets/session.ts': 'c92e4159f7d39ee0d66777b2efe9d81182772091d814aa5f18a87ad035a497d9',
  'test/seeds/snippets/upload-project.ts': '513bd657b43ccddb29b3532f89ab1e434a0422b877ff7b01825906a23b0f474a',
  'clients/python/tests/first_plan_snippet.py':
    'd8b6611a1494d2381d5cc1a49d74b6f4675c95df1c24da2c4efe118e1f269426',
}

/** Removes what a file adds to its block: imports, lists of exports, `export` before a declaration. */
function normalized(text: string): string {
  return text
    .replace(/^import [^;'"]*['"][^'"\n]+['"];?\n/gm, '')
    .replace(/^export (?:type )?\{[^}]*\};?\n/gm, '')
    .replace(/^export (?=class|interface|function)/gm, '')
    .trim()
}

const hashOf = (text: string) => createHash('sha256').update(normalized(text)).digest('hex')

describe('the snippets of the seeds', () => {
  it('are all listed', () => {
    const files = readdirSync(path.join(root, folder)).map((name) => `${folder}/${name}`)
    expect(Object.keys(blocks)).toEqual(expect.arrayContaining(files))
  })

  it.each(Object.entries(blocks))('%s has the text of its seed', (name, hash) => {
    expect(hashOf(readFileSync(path.join(root, name), 'utf8'))).toBe(hash)
  })

  it('fail this test after any edit but that of an import or an export', () => {
    const text = "import {\n  a,\n} from 'a'\n\nconst b = a\nfunction f() {}\n\nexport { b }\n"
    expect(normalized(text)).toBe('const b = a\nfunction f() {}')
    for (const same of [text.replace("'a'", "'c'"), text.replace('function', 'export function')])
      expect(hashOf(same)).toBe(hashOf(text))
    for (const edited of [
      text.replace('b = a', 'b = 2'),
      `${text}await b\n`,
      text.replace('f() {}', 'f()  {}'),
    ])
      expect(hashOf(edited)).not.toBe(hashOf(text))
  })
})
