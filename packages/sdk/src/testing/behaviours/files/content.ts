import { equal, includes, ok, rejects, sameBytes } from '../../assert.ts'
import { bigBlocks, checkBig } from '../../big-file.ts'
import { GrowthMeter } from '../../memory-use.ts'
import { group } from '../../types.ts'

const allBytes = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 7) & 0xff)

export const content = group('file content', [
  {
    id: 'write-read-text',
    name: 'Text is read back as it was written',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      const text = 'Grüße\r\n你好 🏖️\0end'
      await files.writeFile(path, text)
      equal(await files.readFile(path, 'utf8'), text, 'content')
      equal(await files.readFile(path, { encoding: 'utf8' }), text, 'content, asked for with an option')
      equal((await files.readFile(path)).toString(), text, 'toString() of the bytes')
    },
  },
  {
    id: 'write-read-bytes',
    name: 'Every byte value is written and read back unchanged',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, allBytes)
      sameBytes(await files.readFile(path), allBytes, 'content')
    },
  },
  {
    id: 'short-names',
    name: 'sandbox.readFile and sandbox.writeFile work like files.readFile and files.writeFile',
    async run(t) {
      const sandbox = await t.sandbox()
      const path = t.unique('file')
      await sandbox.writeFile(path, 'short')
      equal((await sandbox.readFile(path)).toString(), 'short', 'content')
    },
  },
  {
    id: 'empty-file',
    name: 'An empty file has 0 bytes',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, '')
      equal((await files.readFile(path)).byteLength, 0, 'number of bytes')
      const { type, size } = await files.stat(path)
      equal([type, size], ['file', 0], 'type and size')
      equal(await new Response(await files.readStream(path)).text(), '', 'what readStream gives')
    },
  },
  {
    id: 'overwrite',
    name: 'Writing again replaces all of the old content, also if the new content is shorter',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, 'a long first content')
      await files.writeFile(path, 'short')
      equal(await files.readFile(path, 'utf8'), 'short', 'content')
    },
  },
  {
    id: 'write-sources',
    name: 'A string, bytes, a web stream and an async iterable can all be written',
    async run(t) {
      const { files } = await t.sandbox()
      async function* pieces() {
        yield 'sa'
        yield new TextEncoder().encode('me')
      }
      for (const source of ['same', new TextEncoder().encode('same'), new Response('same').body!, pieces()]) {
        const path = t.unique('file')
        await files.writeFile(path, source)
        equal(await files.readFile(path, 'utf8'), 'same', 'content')
      }
    },
  },
  {
    id: 'write-copies',
    name: 'A write uses the bytes at the time of the call, even if the caller reuses the buffer',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      const buffer = new TextEncoder().encode('before')
      await files.writeFile(path, buffer)
      buffer.fill(0x78)
      equal(await files.readFile(path, 'utf8'), 'before', 'content')
      const read = await files.readFile(path)
      read.fill(0x79)
      equal(await files.readFile(path, 'utf8'), 'before', 'content after the buffer was changed')
    },
  },
  {
    id: 'write-atomic-failure',
    name: 'A write whose source fails rejects with that error, keeps the old content and leaves no other file',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/file`, 'old')
      for (const path of [`${folder}/file`, `${folder}/new`]) {
        let message = ''
        await sandbox.files.writeFile(path, failing()).catch((error) => {
          message = String(error?.message) + String(error?.cause?.message)
        })
        includes(message, 'the source broke', 'What the write rejected with')
      }
      equal(await sandbox.files.readFile(`${folder}/file`, 'utf8'), 'old', 'content')
      equal(await sandbox.files.readdir(folder), ['file'], 'names in the folder')
    },
  },
  {
    id: 'write-atomic-reader',
    name: 'During a write, a reader sees the old content',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, 'old')
      let seen: string | undefined
      async function* source() {
        yield new Uint8Array(300_000).fill(0x6e)
        seen = await files.readFile(path, 'utf8')
        yield 'end'
      }
      await files.writeFile(path, source())
      equal(seen, 'old', 'content read during the write')
      equal((await files.stat(path)).size, 300_003, 'size afterwards')
    },
  },
  {
    id: 'write-makes-parents',
    name: 'writeFile and appendFile create parent folders',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/a/b/c.txt`, 'deep')
      await sandbox.files.appendFile(`${folder}/d/e.txt`, 'too')
      equal(await sandbox.files.readFile(`${folder}/a/b/c.txt`, 'utf8'), 'deep', 'content')
      equal(await sandbox.files.readFile(`${folder}/d/e.txt`, 'utf8'), 'too', 'content')
    },
  },
  {
    id: 'append',
    name: 'appendFile appends to a file, and creates it if needed',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.appendFile(path, 'one ')
      await files.appendFile(path, new TextEncoder().encode('two '))
      await files.appendFile(path, 'three')
      equal(await files.readFile(path, 'utf8'), 'one two three', 'content')
    },
  },
  {
    id: 'read-range',
    name: 'readStream returns the bytes from start up to, but excluding, end',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, '0123456789')
      const read = async (range: { start?: number; end?: number }) =>
        new Response(await files.readStream(path, range)).text()
      equal(await read({ start: 3, end: 6 }), '345', 'from 3 to 6')
      equal(await read({ start: 7 }), '789', 'from 7')
      equal(await read({ end: 2 }), '01', 'to 2')
      equal(await read({ start: 4, end: 4 }), '', 'from 4 to 4')
      equal(await read({ start: 8, end: 100 }), '89', 'beyond the end')
      equal(await read({ start: 50 }), '', 'from beyond the end')
    },
  },
  {
    id: 'read-missing',
    name: 'Reading a missing file throws file_not_found immediately, also for a stream',
    async run(t) {
      const { files } = await t.sandbox()
      const error = await rejects(files.readFile('no/such/file'), 'file_not_found', 'readFile')
      includes(error.message, 'no/such/file', 'The message')
      await rejects(files.readStream('no/such/file'), 'file_not_found', 'readStream')
    },
  },
  {
    id: 'read-directory',
    name: 'Reading a folder as a file throws is_a_directory, and so does writing to it',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await rejects(sandbox.files.readFile(folder), 'is_a_directory', 'readFile')
      await rejects(sandbox.files.readStream(folder), 'is_a_directory', 'readStream')
      await rejects(sandbox.files.writeFile(folder, 'x'), 'is_a_directory', 'writeFile')
    },
  },
  {
    id: 'file-as-directory',
    name: 'A path through a file throws not_a_directory',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, '')
      await rejects(files.readFile(`${path}/inner`), 'not_a_directory', 'readFile')
      await rejects(files.writeFile(`${path}/inner`, 'x'), 'not_a_directory', 'writeFile')
      await rejects(files.readdir(path), 'not_a_directory', 'readdir')
      equal(await files.exists(`${path}/inner`), false, 'exists()')
    },
  },
  {
    id: 'read-too-large',
    name: 'readFile of more than maxBytes throws too_large',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, new Uint8Array(100_001))
      await rejects(files.readFile(path, { maxBytes: 100_000 }), 'too_large', 'readFile')
      equal(
        (await files.readFile(path, { maxBytes: 100_001 })).byteLength,
        100_001,
        'number of bytes within the limit',
      )
    },
  },
  {
    id: 'stream-stop-early',
    name: 'A file stream can be cancelled before its end, and the file stays usable',
    async run(t) {
      const { files } = await t.sandbox()
      const path = t.unique('file')
      await files.writeFile(path, new Uint8Array(1_000_000))
      const reader = (await files.readStream(path)).getReader()
      ok((await reader.read()).value!.byteLength > 0, 'The first piece is empty')
      await reader.cancel()
      await files.writeFile(path, 'new')
      equal(await files.readFile(path, 'utf8'), 'new', 'content')
    },
  },
  {
    id: 'big-file',
    name: 'A file of 100 MiB is streamed in and out unchanged with bounded memory',
    async run(t) {
      const { files } = await t.create()
      const size = t.limits.bigFileBytes
      // A provider that keeps files in this process's memory needs room for the content.
      const allowed = t.limits.growthBytes + (t.provider.isolation === 'simulated' ? size : 0)
      const meter = new GrowthMeter(allowed)
      await files.writeFile(
        'big',
        bigBlocks(size, () => meter.look()),
      )
      equal((await files.stat('big')).size, size, 'size')
      let at = 0
      for await (const chunk of await files.readStream('big')) {
        checkBig(chunk, at)
        at += chunk.byteLength
        meter.look()
      }
      equal(at, size, 'bytes read')
      ok(!meter.complaint, String(meter.complaint))
    },
  },
  {
    id: 'parallel-writes',
    name: 'Concurrent writes to different files all succeed; of concurrent writes to one file, one wins completely',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const texts = Array.from({ length: 20 }, (_, index) => `content ${index} `.repeat(1000))
      await Promise.all(texts.map((text, index) => sandbox.files.writeFile(`${folder}/${index}`, text)))
      for (const [index, text] of texts.entries())
        equal(await sandbox.files.readFile(`${folder}/${index}`, 'utf8'), text, `content of ${index}`)
      await Promise.all(texts.map((text) => sandbox.files.writeFile(`${folder}/one`, text)))
      const winner = await sandbox.files.readFile(`${folder}/one`, 'utf8')
      ok(texts.includes(winner), 'The content is a mixture of several writes')
    },
  },
])

async function* failing(): AsyncGenerator<string> {
  yield 'half of it'
  throw new Error('the source broke')
}
