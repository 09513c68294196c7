import { equal, ok, rejects } from '../../assert.ts'
import { group } from '../../types.ts'

export const lines = group('lines and missing files', [
  {
    id: 'missing-null',
    name: 'readFileOrNull returns the content, or null if the file or its folder does not exist',
    async run(t) {
      const sandbox = await t.sandbox()
      const { files } = sandbox
      const path = t.unique('file')
      equal(await files.readFileOrNull(path), null, 'a missing file')
      equal(await files.readFileOrNull(`${path}/in/a/folder`, 'utf8'), null, 'a file in a missing folder')
      await files.writeFile(path, '')
      equal(await files.readFileOrNull(path, 'utf8'), '', 'an empty file')
      await files.writeFile(path, 'there')
      equal((await files.readFileOrNull(path))?.toString(), 'there', 'content')
      const view = sandbox.restricted()
      equal(
        [await view.files.readFileOrNull(path, 'utf8'), await view.files.readFileOrNull(`${path}-none`)],
        ['there', null],
        'content and a missing file, in the restricted view',
      )
    },
  },
  {
    id: 'missing-null-only',
    name: 'readFileOrNull rejects for a folder, for a file that is too large, and in a destroyed sandbox',
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.mkdir('folder')
      await rejects(sandbox.files.readFileOrNull('folder'), 'is_a_directory', 'of a folder')
      await sandbox.files.writeFile('file', 'four')
      await rejects(sandbox.files.readFileOrNull('file', { maxBytes: 3 }), 'too_large', 'of a large file')
      await sandbox.destroy()
      await rejects(sandbox.files.readFileOrNull('file'), 'not_found', 'in a destroyed sandbox')
    },
  },
  {
    id: 'lines',
    name: 'readLines returns the requested lines, counted from 1, and reports whether more follow',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, 'one\ntwo\n\nfour\nfive\n')
      const read = async (startLine?: number, endLine?: number) => {
        const found = await files.readLines(path, { startLine, endLine })
        return [found.startLine, found.lines, found.more, found.totalLines]
      }
      equal(await read(), [1, ['one', 'two', '', 'four', 'five'], false, 5], 'all lines')
      equal(await read(2, 4), [2, ['two', '', 'four'], true, undefined], 'lines 2 to 4')
      equal(await read(4), [4, ['four', 'five'], false, 5], 'lines from 4')
      equal(await read(5, 5), [5, ['five'], false, 5], 'the last line')
      equal(await read(5, 99), [5, ['five'], false, 5], 'lines beyond the end')
      equal(await read(6, 9), [6, [], false, 5], 'lines after the end')
      await rejects(files.readLines(`${path}-none`), 'file_not_found', 'readLines() of a missing file')
    },
  },
  {
    id: 'lines-endings',
    name: 'readLines understands CRLF, a missing final newline, empty files and single carriage returns',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      const cases: Array<[text: string, lines: string[]]> = [
        ['', []],
        ['\n', ['']],
        ['a', ['a']],
        ['a\nb', ['a', 'b']],
        ['a\r\nb\r\n\r\nc', ['a', 'b', '', 'c']],
        ['a\rb\nc\r', ['a\rb', 'c\r']],
        ['\uFEFFa\n', ['\uFEFFa']],
      ]
      for (const [text, expected] of cases) {
        await files.writeFile(path, text)
        const { lines, totalLines } = await files.readLines(path)
        equal([lines, totalLines], [expected, expected.length], `lines of ${JSON.stringify(text)}`)
      }
    },
  },
  {
    id: 'lines-utf8',
    name: 'readLines does not break characters, however the content arrives',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      const emoji = `x${'😀'.repeat(50_000)}`
      await files.writeFile(path, `${emoji}\nzwei Wörter\n`)
      const { lines } = await files.readLines(path, { maxLineBytes: 1_000_000 })
      equal([lines[0] === emoji, lines[1]], [true, 'zwei Wörter'], 'whether line 1 is right, and line 2')
    },
  },
  {
    id: 'lines-long',
    name: 'readLines cuts very long lines between two characters and names them; too many lines throw too_large',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, `a\n${'äb'.repeat(2_000_000)}\nc\n`)
      const { lines, cutLines, totalLines } = await files.readLines(path, { maxLineBytes: 10 })
      // Ten bytes are three times ä and b, and the first byte of another ä.
      equal([lines, cutLines, totalLines], [['a', 'äbäbäb', 'c'], [2], 3], 'lines, cut lines and total')
      const usual = await files.readLines(path, { startLine: 2, endLine: 2 })
      equal([usual.cutLines, usual.more], [[2], true], 'cut lines with the default limit, and more')
      ok(usual.lines[0]!.length < 70_000, `the line has ${usual.lines[0]!.length} characters`)
      const error = await rejects(files.readLines(path, { maxBytes: 1000 }), 'too_large', 'readLines()')
      equal(error.details.maxBytes, 1000, 'details.maxBytes')
    },
  },
])
