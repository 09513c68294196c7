import type { Core } from '../core.ts'
import { DiscordError } from '../errors.ts'
import type { Upload } from '../state/files.ts'
import { type AllowedMentions, type MessageContent, MessageFlag } from '../state/messages.ts'
import type { Component, Embed, MessageRecord } from '../state/world.ts'
import { checkComponents } from './component-form.ts'
import { checkEmbeds } from './embed-form.ts'
import { type Body, Form } from './form.ts'

const SETTABLE_FLAGS =
  MessageFlag.suppressEmbeds |
  MessageFlag.ephemeral |
  MessageFlag.suppressNotifications |
  MessageFlag.componentsV2

export interface ParsedMessage extends MessageContent {
  readonly nonce?: string | number
  readonly enforceNonce: boolean
  readonly replyTo?: { readonly messageId: string; readonly mayBeMissing: boolean }
}

/** Checks the body of a message as Discord does. `existing` is the message that it edits. */
export function parseMessage(
  core: Core,
  body: Body,
  files: ReadonlyMap<string, Upload>,
  existing?: MessageRecord,
  base: readonly (string | number)[] = [],
): ParsedMessage {
  const form = new Form()
  const content = form.text([...base, 'content'], body.content, { max: 2000 })
  const flags = typeof body.flags === 'number' ? body.flags & SETTABLE_FLAGS : undefined
  const usesV2 = Boolean(((flags ?? 0) | (existing?.flags ?? 0)) & MessageFlag.componentsV2)
  const embeds = form.list([...base, 'embeds'], body.embeds) as Embed[] | undefined
  if (embeds) checkEmbeds(form, [...base, 'embeds'], embeds)
  const components = form.list([...base, 'components'], body.components) as Component[] | undefined
  if (components) checkComponents(form, [...base, 'components'], components, usesV2)
  if (usesV2 && (content || embeds?.length)) {
    form.add(
      [...base, 'content'],
      'MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2',
      "The 'content' and 'embeds' fields cannot be used when using MessageFlags.IS_COMPONENTS_V2",
    )
  }
  const attachments = form.list([...base, 'attachments'], body.attachments)
  const uploads = namedUploads(attachments, files)
  const kept = attachments?.filter(({ id }) => !files.has(String(id))).map(({ id }) => String(id))
  if (uploads.length + (kept?.length ?? 0) > core.limits.filesPerMessage) {
    form.length([...base, 'attachments'], attachments ?? uploads, 0, core.limits.filesPerMessage)
  }
  const allowedMentions = form.object([...base, 'allowed_mentions'], body.allowed_mentions) as
    | AllowedMentions
    | undefined
  if (allowedMentions) checkAllowedMentions(form, [...base, 'allowed_mentions'], allowedMentions)
  const nonce = parseNonce(form, [...base, 'nonce'], body.nonce)
  const reference = form.object([...base, 'message_reference'], body.message_reference)
  form.throwIfAny()
  for (const { bytes } of uploads) {
    if (bytes.byteLength > core.limits.fileBytes) throw new DiscordError('tooLarge')
  }
  const result: ParsedMessage = {
    content: body.content === null ? '' : content,
    embeds: body.embeds === null ? [] : embeds,
    components: body.components === null ? [] : components,
    files: uploads,
    keepAttachments: body.attachments === null ? [] : existing ? kept : undefined,
    flags,
    allowedMentions: allowedMentions ?? undefined,
    nonce,
    enforceNonce: body.enforce_nonce === true,
    replyTo:
      reference && typeof reference.message_id === 'string'
        ? { messageId: reference.message_id, mayBeMissing: reference.fail_if_not_exists === false }
        : undefined,
  }
  checkNotEmpty(result, existing)
  return result
}

function checkNotEmpty(input: ParsedMessage, existing: MessageRecord | undefined): void {
  const text = input.content ?? existing?.content ?? ''
  const embeds = input.embeds ?? existing?.embeds ?? []
  const components = input.components ?? existing?.components ?? []
  const kept = input.keepAttachments ?? existing?.attachments ?? []
  const hasFiles = (input.files?.length ?? 0) + kept.length > 0
  if (text.trim() === '' && embeds.length === 0 && components.length === 0 && !hasFiles) {
    throw new DiscordError('emptyMessage')
  }
}

/** Names and descriptions of uploads come from `attachments`, if they are listed there. */
function namedUploads(attachments: Body[] | undefined, files: ReadonlyMap<string, Upload>): Upload[] {
  return [...files].map(([number, file]) => {
    const entry = attachments?.find(({ id }) => String(id) === number)
    return {
      ...file,
      ...(typeof entry?.filename === 'string' && { name: entry.filename }),
      ...(typeof entry?.description === 'string' && { description: entry.description }),
    }
  })
}

function parseNonce(
  form: Form,
  path: readonly (string | number)[],
  value: unknown,
): string | number | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value === 'number' && Number.isInteger(value)) return value
  return form.text(path, value, { max: 25 })
}

function checkAllowedMentions(
  form: Form,
  path: readonly (string | number)[],
  allowed: AllowedMentions,
): void {
  for (const [index, kind] of (allowed.parse ?? []).entries()) {
    form.choice([...path, 'parse', index], kind, ['users', 'roles', 'everyone'])
  }
  for (const kind of ['users', 'roles'] as const) {
    if (allowed[kind]?.length) form.length([...path, kind], allowed[kind], 0, 100)
    if (allowed.parse?.includes(kind) && allowed[kind]?.length) {
      form.add(
        path,
        'MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE',
        `parse:["${kind}"] and ${kind}: [ids...] are mutually exclusive.`,
      )
    }
  }
}
