import type { AgentReply, Question } from '@sandkasten/threads'
import { printable } from './printable.ts'

/** The question as lines, with numbers to answer with. */
export function questionLines({ text, choices, isMultiple, allowsText }: Question): string[] {
  const listed = choices.map(({ label, description }, at) => {
    const more = description === undefined ? '' : `: ${description}`
    return printable(`  ${at + 1}) ${label}${more}`).replaceAll('\n', ' ')
  })
  const how = [
    choices.length > 0 && (isMultiple ? 'numbers, such as 1 3' : 'a number'),
    allowsText && 'a text',
    '/reject',
  ]
  return [`question: ${printable(text)}`, ...listed, `Answer with ${how.filter(Boolean).join(', or ')}.`]
}

/** Undefined: the line is no answer to the question. */
export function readReply(
  { choices, isMultiple, allowsText }: Question,
  line: string,
): AgentReply | undefined {
  const text = line.trim()
  if (text === '/reject') return { rejected: true }
  const numbers = /^\d+([\s,]+\d+)*$/.test(text) ? text.split(/[\s,]+/).map(Number) : []
  const chosen = numbers.flatMap((number) => choices[number - 1] ?? [])
  const isChoice =
    chosen.length > 0 && chosen.length === numbers.length && (isMultiple || chosen.length === 1)
  if (isChoice) return { choices: [...new Set(chosen.map(({ value }) => value))] }
  return allowsText && text !== '' ? { choices: [], text } : undefined
}
