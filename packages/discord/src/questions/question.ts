import type { Choice, Question } from '@sandkasten/threads'
import { plain, shortened } from '../show/escape.ts'
import { piecesOf } from '../show/markdown.ts'
import type { Button, Post, Row } from '../show/post.ts'
import { split } from '../show/split.ts'

/** What Discord accepts in an id of a control, a label of a button, a label of a select, and as number of options. */
const most = { id: 100, buttonLabel: 80, optionLabel: 100, options: 25, buttons: 4 } as const

/** The message that asks. Controls name the question and the choice, so that they work after a restart. */
export function questionPost(question: Question): Post {
  const { id, kind, choices, isMultiple, allowsText } = question
  const buttons: Button[] = []
  const rows: Row[] = []
  const isShort = choices.length <= most.buttons && !isMultiple
  if (isShort)
    buttons.push(
      ...choices.map(({ value, label }, at) => ({
        type: 'button' as const,
        id: choiceId(id, value, at),
        label: shortened(label, most.buttonLabel) || '…',
        style: styleOf(question, at),
      })),
    )
  else if (choices.length > 0) rows.push(selectOf(question))
  if (allowsText)
    buttons.push({ type: 'button', id: `text:${id}`, label: 'Answer in words', style: 'secondary' })
  if (!choices.some(({ value }) => value === 'reject'))
    buttons.push({
      type: 'button',
      id: `reject:${id}`,
      label: kind === 'permission' ? 'Reject' : 'Skip',
      style: kind === 'permission' ? 'danger' : 'secondary',
    })
  for (let at = 0; at < buttons.length; at += 5) rows.push(buttons.slice(at, at + 5))
  return { content: contentOf(question), rows }
}

/** The message after the question has ended: without controls, with what was answered. */
export function settledPost(question: Question, outcome: string): Post {
  return { content: `${contentOf(question)}\n-# ${plain(outcome, 300)}` }
}

/** The choice that a control stands for. `numbered` looks up a choice whose value was too long for an id. */
export function choiceOf(text: string, numbered: (index: number) => string | undefined): string | undefined {
  if (text.startsWith('=')) return text.slice(1)
  return /^#\d{1,3}$/.test(text) ? numbered(Number(text.slice(1))) : undefined
}

/** `=value`, or `#index` if the value is too long. */
function encoded(value: string, index: number, room: number): string {
  return value.length + 1 <= room && value !== '' ? `=${value}` : `#${index}`
}

function choiceId(questionId: string, value: string, index: number): string {
  const head = `choose:${questionId}:`
  return `${head}${encoded(value, index, most.id - head.length)}`
}

function selectOf({ id, choices, isMultiple }: Question): Row {
  const shown = choices.slice(0, most.options)
  return {
    type: 'select',
    id: `select:${id}`,
    placeholder: isMultiple ? 'Choose one or more' : 'Choose one',
    most: isMultiple ? shown.length : 1,
    options: shown.map(({ value, label, description }, at) => ({
      label: shortened(label, most.optionLabel) || '…',
      value: encoded(value, at, most.optionLabel),
      ...(description ? { description: shortened(description, most.optionLabel) } : {}),
    })),
  }
}

function contentOf({ kind, text, choices }: Question): string {
  const head = kind === 'permission' ? '-# ? The agent asks for permission' : '-# ? The agent asks'
  const described = choices.filter(({ description }) => description).slice(0, most.options)
  const lines = described.map((choice) => `- ${lineOf(choice)}`).join('\n')
  const [body = ''] = split(piecesOf(text), 1400)
  return shortened([head, body, lines].filter((part) => part !== '').join('\n'), 1650)
}

function lineOf({ label, description = '' }: Choice): string {
  return `**${plain(label, 80)}** ${plain(description, 160)}`
}

function styleOf({ kind, choices }: Question, at: number): Button['style'] {
  if (choices[at]!.value === 'reject') return 'danger'
  if (kind === 'permission') return at === 0 ? 'success' : 'secondary'
  return 'primary'
}
