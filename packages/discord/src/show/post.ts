import type { ChatFile } from '@sandkasten/threads'

/** One message of the bot. A later state of the same post replaces it. */
export interface Post {
  readonly content: string
  readonly files?: readonly ChatFile[]
  readonly rows?: readonly Row[]
}

/** One row of controls below a message. */
export type Row = readonly Button[] | Select

export interface Button {
  readonly type: 'button'
  readonly id: string
  readonly label: string
  readonly style: 'primary' | 'secondary' | 'success' | 'danger'
}

export interface Select {
  readonly type: 'select'
  readonly id: string
  readonly placeholder: string
  readonly most: number
  readonly options: ReadonlyArray<{
    readonly label: string
    readonly value: string
    readonly description?: string
  }>
}
