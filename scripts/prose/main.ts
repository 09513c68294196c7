/**
 * Checks the language of documents, comments and messages.
 *
 *   node scripts/prose/main.ts                     check everything that git tracks
 *   node scripts/prose/main.ts packages/cli        check a part
 *   node scripts/prose/main.ts --all               print every finding, not only the worst ten
 *   node scripts/prose/main.ts --sample 10 --seed 1  print random sentences of each package
 *   … --root DIR                                   another checkout
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../tools.ts'
import { allowed } from './allowed.ts'
import { passagesOf } from './passages.ts'
import { type Finding, findingsIn, rules, sentencesOf, wordsIn } from './rules.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    all: { type: 'boolean', default: false },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    root: { type: 'string', default: root },
  },
})
const files = execFileSync('git', ['ls-files', '--', ...positionals], { cwd: values.root, encoding: 'utf8' })
  .split('\n')
  .filter((file) => /\.(md|ts|rs|py)$/.test(file) && !/(^|\/)(dist|fixtures|api)\//.test(file))
  .filter((file) => !file.startsWith('scripts/prose/') && !file.startsWith('test/prose/'))
const read = (file: string) => readFileSync(path.join(values.root, file), 'utf8')

if (values.sample) sample(Number(values.sample), Number(values.seed))
else process.exitCode = check()

function check(): number {
  const found = files.flatMap((file) => findingsIn(file, read(file)))
  const isAllowed = (finding: Finding) =>
    allowed.some(({ file, text }) => finding.file === file && finding.text.includes(text))
  const open = found.filter((finding) => !isAllowed(finding))
  const unused =
    positionals.length > 0
      ? []
      : allowed.filter(({ file, text }) => !found.some((one) => one.file === file && one.text.includes(text)))
  for (const { file, text } of unused)
    console.error(`scripts/prose/allowed.ts: nothing matches ${file}: "${text}"`)
  if (open.length === 0) {
    if (unused.length === 0)
      console.log(`${files.length} files, no findings, ${allowed.length} sentences allowed`)
    return unused.length === 0 ? 0 : 1
  }
  const shown = values.all ? open : worstTen(open)
  for (const { file, line, rule, text } of shown) console.error(`${file}:${line}  ${rule}\n    ${text}`)
  console.error(`\n${open.length} findings in ${new Set(open.map(({ file }) => file)).size} files`)
  for (const { name, advice } of [
    ...rules,
    { name: 'long line', advice: 'wrap Markdown at 120 characters' },
  ]) {
    const count = open.filter(({ rule }) => rule === name).length
    if (count > 0) console.error(`  ${String(count).padStart(5)}  ${name}: ${advice}`)
  }
  if (!values.all) console.error('Above are the worst ten. --all prints every finding.')
  return 1
}

/** The longest sentences of the files with most findings, one for each file. */
function worstTen(findings: readonly Finding[]): Finding[] {
  const byFile = Map.groupBy(findings, ({ file }) => file)
  return [...byFile.values()]
    .sort((a, b) => b.length - a.length)
    .slice(0, 10)
    .map((own) => own.reduce((worst, each) => (wordsIn(each.text) > wordsIn(worst.text) ? each : worst)))
}

function sample(count: number, seed: number): void {
  const rooms = Map.groupBy(
    files,
    (file) => /^(packages|clients)\/[^/]+/.exec(file)?.[0] ?? file.split('/')[0]!,
  )
  for (const [room, own] of [...rooms].sort()) {
    const sentences = own.flatMap((file) =>
      passagesOf(file, read(file)).flatMap((passage) =>
        sentencesOf(passage)
          .filter((text) => wordsIn(text) >= 6)
          .map((text) => `${text}  (${file}:${passage.line})`),
      ),
    )
    console.log(`\n## ${room} (${sentences.length} sentences)`)
    const random = generator(seed)
    for (let taken = 0; taken < count && sentences.length > 0; taken += 1)
      console.log(`- ${sentences.splice(Math.floor(random() * sentences.length), 1)[0]}`)
  }
}

/** A small generator with a seed (mulberry32), so that a sample can be drawn again. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}
