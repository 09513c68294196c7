import type { Answer, Block } from '@sandkasten/threads'
import { beforeEach, describe, expect, it } from 'vitest'
import { AnswerPrinter } from './printer.ts'
import { questionLines, readReply } from './questions.ts'

let answers: string
let notes: string[]
let printer: AnswerPrinter
beforeEach(() => {
  answers = ''
  notes = []
  printer = new AnswerPrinter({
    answer: (text) => {
      answers += text
    },
    note: (line) => notes.push(line),
    keep: (name, bytes) => `/kept/${name} ${bytes.byteLength}`,
  })
})

const state = (blocks: Block[], more: Partial<Answer> = {}): Answer => ({
  ...{ id: 'a', threadId: 't', state: 'working', isFinal: false, blocks },
  ...more,
})
const text = (id: string, value: string): Block => ({ type: 'text', id, text: value })
const tool = (status: 'running' | 'completed'): Block => ({
  type: 'tool',
  id: 'x',
  tool: 'bash',
  status,
  title: 'npm test',
})

describe('AnswerPrinter', () => {
  it('streams texts, and prints each tool once, in their order', () => {
    printer.print(state([text('1', 'Let me')]))
    printer.print(state([text('1', 'Let me see.'), tool('running')]))
    expect(answers).toBe('Let me see.\n')
    expect(notes).toEqual([])
    printer.print(state([text('1', 'Let me see.'), tool('completed'), text('2', 'It ')]))
    printer.print(
      state([text('1', 'Let me see.'), tool('completed'), text('2', 'It works.\n')], {
        state: 'done',
        isFinal: true,
      }),
    )
    expect(answers).toBe('Let me see.\nIt works.\n')
    expect(notes).toEqual(['✓ bash npm test'])
  })

  it('removes escape sequences and characters that turn the text around', () => {
    printer.print(state([text('1', 'a\u001b]0;title\u0007b\u202ec\r\n')], { state: 'done', isFinal: true }))
    expect(answers).toBe('a\ufffd]0;title\ufffdb\ufffdc\n')
  })

  it('prints steps once, the error, and the footer', () => {
    const step: Block = { type: 'step', id: 's1', text: 'creating', isDone: false }
    printer.print(state([step]))
    const footer = { sandbox: 'demo', provider: 'local', status: 'running', costUsd: 0.25, durationMs: 1_500 }
    const error = { message: 'It failed.', hint: 'Try again.' }
    printer.print(state([{ ...step, isDone: true }], { state: 'failed', isFinal: true, error, footer }))
    expect(notes).toEqual(['creating…', 'It failed. Try again.', 'demo (local) · $0.2500 · 1.5 s'])
  })
})

describe('readReply', () => {
  const choices = ['once', 'always', 'no'].map((value) => ({ value, label: value }))
  const question = { id: 'q', threadId: 't', kind: 'question', text: 'May I?', choices } as const

  it('takes numbers of choices, as many as the question allows', () => {
    const single = { ...question, isMultiple: false, allowsText: false }
    expect(questionLines(single)).toContain('  2) always')
    expect(readReply(single, ' 2 ')).toEqual({ choices: ['always'] })
    expect(readReply(single, '1 2')).toBeUndefined()
    expect(readReply(single, '4')).toBeUndefined()
    expect(readReply(single, 'yes')).toBeUndefined()
    expect(readReply({ ...single, isMultiple: true }, '1, 3')).toEqual({ choices: ['once', 'no'] })
    expect(readReply(single, '/reject')).toEqual({ rejected: true })
  })

  it('takes a text where the question allows it', () => {
    const open = { ...question, isMultiple: false, allowsText: true }
    expect(readReply(open, 'use the other file')).toEqual({ choices: [], text: 'use the other file' })
    expect(readReply(open, ' ')).toBeUndefined()
  })
})
