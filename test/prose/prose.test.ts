import { describe, expect, it } from 'vitest'
import { passagesOf } from '../../scripts/prose/passages.ts'
import { findingsIn, rules } from '../../scripts/prose/rules.ts'

const rulesBroken = (file: string, source: string) => findingsIn(file, source).map(({ rule }) => rule)
const words = (count: number) => Array.from({ length: count }, () => 'word').join(' ')

describe('the prose check', () => {
  const examples: Record<string, [bad: string, good: string]> = {
    he: ['The caller gets his answer.', 'The caller gets its answer.'],
    whoever: ['Whoever comes next waits.', 'The next caller waits.'],
    nobody: ['It ends when nobody reads.', 'It ends when there is no reader.'],
    'is none': ['Where there is none, it fails.', 'It is none of the three.'],
    'who as a subject': ['Who was late waits.', 'Who may call it?'],
    'clause as a subject': ['What was removed is gone.', 'Removed files are gone.'],
    'long sentence': [`${words(36)}.`, `${words(35)}.`],
  }

  for (const { name } of rules) {
    it(`finds "${name}" in documents, comments and strings, and accepts plain sentences`, () => {
      const [bad, good] = examples[name]!
      for (const [file, source] of [
        ['a.md', bad],
        ['a.ts', `/** ${bad} */\nexport const a = 1`],
        ['a.ts', `throw new Error('${bad}')`],
        ['a.rs', `fn a() {\n    // ${bad}\n}`],
        ['a.rs', `fn a() { bail("${bad}") }`],
        ['a.py', `def a():\n    """${bad}"""`],
        ['a.py', `a = 1  # ${bad}`],
      ] as const) {
        // A string of fewer than four words is a name.
        if (/Error|bail/.test(source) && bad.split(' ').length < 4) continue
        expect(rulesBroken(file, source), source).toContain(name)
        expect(rulesBroken(file, source.replace(bad, good)), good).not.toContain(name)
      }
    })
  }

  it('finds Markdown lines that are too long, but not in tables and code', () => {
    const long = `${'short words '.repeat(11)}`.trim()
    expect(rulesBroken('a.md', long)).toContain('long line')
    expect(rulesBroken('a.md', `| ${long} |`)).not.toContain('long line')
    expect(rulesBroken('a.md', `\`\`\`\n${long}\n\`\`\``)).toEqual([])
  })

  it('ignores code: fences, inline code, short strings and scripts', () => {
    expect(rulesBroken('a.md', 'It runs as `nobody`.')).toEqual([])
    expect(rulesBroken('a.md', '```sh\nwhoever --nobody\n```')).toEqual([])
    expect(rulesBroken('a.ts', "const user = 'nobody'")).toEqual([])
    expect(rulesBroken('a.ts', 'const script = `\nif nobody is here then\nexit\n`')).toEqual([])
  })

  it('joins the lines of a comment into paragraphs and knows their line', () => {
    expect(passagesOf('a.ts', 'const a = 1\n// One sentence over\n// two lines.\nconst b = 2')).toEqual([
      { kind: 'comment', line: 2, text: 'One sentence over two lines.' },
    ])
    expect(passagesOf('a.rs', "let c = '\"';\n/// First.\n///\n/// Second.\nfn a() {}")).toEqual([
      { kind: 'comment', line: 2, text: 'First.' },
      { kind: 'comment', line: 2, text: 'Second.' },
    ])
  })
})
