import { type Passage, passagesOf } from './passages.ts'

export interface Finding {
  readonly file: string
  readonly line: number
  readonly rule: string
  readonly text: string
}

export interface ProseRule {
  readonly name: string
  readonly advice: string
  readonly breaks: (sentence: string) => boolean
}

const longestSentence = 35
const longestMarkdownLine = 120

const pattern = (name: string, found: RegExp, advice: string): ProseRule => ({
  name,
  advice,
  breaks: (sentence) => found.test(sentence),
})

/** Patterns that mark sentences a reader has to decode. A short list: each one was common in this repository. */
export const rules: readonly ProseRule[] = [
  pattern('he', /\b(he|his|him|himself)\b/i, 'name the component or write "you"'),
  pattern('whoever', /\bwhoever\b/i, 'name the component: the caller, the client, the next process'),
  pattern('nobody', /\bnobody\b/i, 'say what does not happen, or write "no caller", "no process"'),
  pattern('is none', /\b(is|are|was) none\b(?! of)/i, 'write "there is no …" or "is missing"'),
  pattern('who as a subject', /^(who|whose)\b[^?]*$/i, 'start with the component'),
  pattern(
    'clause as a subject',
    /\b(what (was|is|has) [a-z]+ed (is|was|has)|(one|those) (that|who) (was|is|has)|who (was|has|asks|waits|comes|goes) [a-z ]+ (is|goes|gets|has)\b)/i,
    'name the thing and use an active verb',
  ),
  {
    name: 'long sentence',
    advice: `split sentences of more than ${longestSentence} words`,
    breaks: (sentence) => wordsIn(sentence) > longestSentence,
  },
]

/** Every sentence of a file that breaks a rule, and Markdown lines that are too long. */
export function findingsIn(file: string, source: string): Finding[] {
  const findings = passagesOf(file, source).flatMap((passage) =>
    sentencesOf(passage).flatMap((text) =>
      rules
        .filter((rule) => rule.breaks(text))
        .map((rule) => ({ file, line: passage.line, rule: rule.name, text })),
    ),
  )
  return file.endsWith('.md') ? [...findings, ...longLines(file, source)] : findings
}

export function sentencesOf({ text }: Passage): string[] {
  return text
    .split(/(?<=[.!?]["')”]*)\s+(?=["'(“]*[A-Z`])/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => sentence !== '')
}

export function wordsIn(sentence: string): number {
  return sentence.split(/[\s—–]+/).filter((word) => /[A-Za-z0-9]/.test(word)).length
}

/** Tables and lines that consist of one long link cannot be wrapped. */
function longLines(file: string, source: string): Finding[] {
  let fenced = false
  return source.split('\n').flatMap((line, index) => {
    if (/^\s*(```|~~~)/.test(line)) fenced = !fenced
    const bound = fenced || /^\s*\|/.test(line) || !/\S\s+\S/.test(line.trim().slice(0, longestMarkdownLine))
    if (bound || line.length <= longestMarkdownLine) return []
    return [
      { file, line: index + 1, rule: 'long line', text: `${line.length} characters: ${line.slice(0, 80)}…` },
    ]
  })
}
