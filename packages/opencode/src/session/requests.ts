import { limits } from './limits.ts'
import { fieldsOf, idIf, lineOf, listOf, textOf } from './read.ts'

/** The agent waits until somebody allows a tool. */
export interface PermissionRequest {
  readonly id: string
  readonly sessionId: string
  /** The tool, or what it wants to do: `bash`, `external_directory`. */
  readonly permission: string
  /** Commands, paths or addresses. */
  readonly patterns: readonly string[]
}

/** Questions of the tool `question`. The agent waits for one reply to all of them. */
export interface QuestionRequest {
  readonly id: string
  readonly sessionId: string
  readonly questions: readonly SessionQuestion[]
}

export interface SessionQuestion {
  readonly text: string
  readonly header: string
  readonly choices: ReadonlyArray<{ readonly label: string; readonly description: string }>
  readonly isMultiple: boolean
  /** Whether an answer may be another text than the choices. */
  readonly allowsText: boolean
}

export function readPermissions(value: unknown): PermissionRequest[] {
  return listOf(value, limits.requests).flatMap((one) => readPermission(one) ?? [])
}

export function readPermission(value: unknown): PermissionRequest | undefined {
  const request = fieldsOf(value)
  const id = idIf(request.id)
  const sessionId = idIf(request.sessionID)
  if (id === undefined || sessionId === undefined) return undefined
  const patterns = listOf(request.patterns, 20).map((one) => textOf(one, limits.errorChars))
  return { id, sessionId, permission: lineOf(request.permission, 100), patterns }
}

export function readQuestions(value: unknown): QuestionRequest[] {
  return listOf(value, limits.requests).flatMap((one) => readQuestion(one) ?? [])
}

export function readQuestion(value: unknown): QuestionRequest | undefined {
  const request = fieldsOf(value)
  const id = idIf(request.id)
  const sessionId = idIf(request.sessionID)
  if (id === undefined || sessionId === undefined) return undefined
  return { id, sessionId, questions: listOf(request.questions, limits.questions).map(oneQuestion) }
}

function oneQuestion(value: unknown): SessionQuestion {
  const { question, header, options, multiple, custom } = fieldsOf(value)
  const choices = listOf(options, limits.choices).map((one) => {
    const { label, description } = fieldsOf(one)
    // The label is the answer, so it is not changed.
    return { label: textOf(label, 500), description: lineOf(description, 500) }
  })
  return {
    text: textOf(question, limits.errorChars),
    header: lineOf(header, 100),
    choices: choices.filter(({ label }) => label !== ''),
    isMultiple: multiple === true,
    allowsText: custom !== false,
  }
}
