import type { Action } from '@sandkasten/threads'
import type { Call, Form, Place } from '../commands/command.ts'
import type { Post } from '../show/post.ts'

/** A button or select that was used, or a form that was submitted. */
export interface ControlCall extends Call {
  /** The part of the id after the first colon. */
  readonly argument: string
  /** Of a select: what was chosen. */
  readonly values: readonly string[]
  /** Of a form: a field’s text. */
  field(id: string): string | undefined
  /** Names of the fields of the form. */
  readonly fields: readonly string[]
}

/**
 * Controls of one kind: their ids begin with `name:`. `update`: the message with the control changes, or stays.
 * `private`: a new reply that only the user sees. `form`: a form opens.
 */
export type Control = {
  readonly name: string
  readonly right: Action
  readonly target?: (call: ControlCall) => string | undefined
} & (
  | {
      readonly reply: 'update'
      /** The message while the work is done. Afterwards its thread may be archived, and the message stays like this. */
      progress?(call: ControlCall): Post
      /** The message’s new state, a private word to the user, or nothing. */
      run(call: ControlCall, place: ControlPlace): Promise<{ post?: Post; word?: Post } | undefined>
    }
  | { readonly reply: 'private'; run(call: ControlCall, place: ControlPlace): Promise<Post> }
  | { readonly reply: 'form'; form(call: ControlCall): Form }
)

export interface ControlPlace extends Place {
  /** The value of a choice whose value was too long for an id. */
  numberedChoice(questionId: string, index: number): string | undefined
}
