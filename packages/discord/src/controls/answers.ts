import type { AgentReply } from '@sandkasten/threads'
import { said } from '../commands/reply.ts'
import { choiceOf } from '../questions/question.ts'
import type { Control, ControlCall, ControlPlace } from './control.ts'

const tooLate = { word: said('-# • This question was answered already, or has ended.') }
const tooLong = {
  word: said('-# ✕ The bot was restarted and does not know this choice any more. Answer in words.'),
}

/** A button with one choice: `choose:QUESTION:=VALUE` or `choose:QUESTION:#INDEX`. */
const choose: Control = {
  name: 'choose',
  right: 'use',
  reply: 'update',
  async run(call, place) {
    const at = call.argument.search(/:[=#]/)
    const questionId = call.argument.slice(0, at)
    return reply(call, place, questionId, [call.argument.slice(at + 1)])
  },
}

const select: Control = {
  name: 'select',
  right: 'use',
  reply: 'update',
  run: (call, place) => reply(call, place, call.argument, call.values),
}

const reject: Control = {
  name: 'reject',
  right: 'use',
  reply: 'update',
  run: (call, place) => send(call, place, call.argument, { rejected: true }),
}

const text: Control = {
  name: 'text',
  right: 'use',
  reply: 'form',
  form: ({ argument }) => ({
    id: `answer:${argument}`,
    title: 'Answer the agent',
    fields: [{ id: 'text', label: 'Your answer', isRequired: true, isLong: true }],
  }),
}

const answer: Control = {
  name: 'answer',
  right: 'use',
  reply: 'update',
  run: (call, place) => send(call, place, call.argument, { choices: [], text: call.field('text') ?? '' }),
}

export const answers: readonly Control[] = [choose, select, reject, text, answer]

async function reply(call: ControlCall, place: ControlPlace, questionId: string, encoded: readonly string[]) {
  const choices = encoded.map((one) => choiceOf(one, (index) => place.numberedChoice(questionId, index)))
  if (choices.length === 0 || choices.includes(undefined)) return tooLong
  return send(call, place, questionId, { choices: choices as string[] })
}

/** The message changes when the engine settles the question. */
async function send(call: ControlCall, { threads }: ControlPlace, questionId: string, given: AgentReply) {
  return (await threads.reply(questionId, given, call.by)) ? undefined : tooLate
}
