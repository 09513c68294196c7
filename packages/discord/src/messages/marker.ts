import { SandboxError } from '@sandkasten/sdk'

/**
 * What `sandkasten send` asks of the bot. It stands in the footer of an embed in a message of the bot itself, so only
 * the holder of the bot’s token can ask. Nothing in it is secret. Messages that the bot writes otherwise have no embeds.
 */
export interface Marker {
  /** Made by the sender; the same one twice is one request. */
  readonly id: string
  readonly by: string
  readonly sandbox?: string
  readonly create?: {
    readonly name?: string
    readonly provider?: string
    readonly repo?: string
    readonly snapshotId?: string
  }
  readonly model?: string
  /** The prompt is in the attached file of this name, because it is too long for a message. */
  readonly promptFile?: string
}

const head = 'sandkasten 1 '
/** What Discord accepts in the footer of an embed. */
const mostCharacters = 2048

export function markerText(marker: Marker): string {
  const text = `${head}${JSON.stringify(marker)}`
  if (text.length <= mostCharacters) return text
  throw new SandboxError('too_large', 'The names and addresses of this request are too long.', {
    hint: 'Shorten the repository’s address.',
  })
}

/** Undefined: not a marker, or one of another version. */
export function markerOf(footer: string | undefined): Marker | undefined {
  if (!footer?.startsWith(head)) return undefined
  try {
    const value = JSON.parse(footer.slice(head.length)) as Partial<Marker>
    const { id, by, sandbox, create, model, promptFile } = value
    if (typeof id !== 'string' || typeof by !== 'string') return undefined
    if ([sandbox, model, promptFile, ...Object.values(create ?? {})].some(isNotText)) return undefined
    return { id, by, sandbox, create, model, promptFile }
  } catch {
    return undefined
  }
}

function isNotText(value: unknown): boolean {
  return value !== undefined && typeof value !== 'string'
}
