import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { AgentName } from '@sandkasten/opencode'
import type { NetworkChoice } from '../../network-choice.ts'

/** What the next `sandkasten code` in the same folder continues with. Names of variables, and no value of any. */
export interface Remembered {
  readonly agent?: AgentName
  readonly model?: string
  readonly modelUrl?: string
  readonly credentials?: readonly string[]
  readonly network?: NetworkChoice
  readonly allow?: readonly string[]
  readonly deny?: readonly string[]
  /** A hash of the configuration of the agent's server. */
  readonly server?: string
  readonly sessions?: Partial<Record<AgentName, string>>
  /** Of a workspace of opencode: its id there, and how opencode at home numbers the events of its sessions. */
  readonly workspace?: { readonly id: string; readonly sessions: Readonly<Record<string, number>> }
}

/** A file beside the registry, for one sandbox. A new sandbox of the same name has another id, and begins anew. */
export class Memory {
  readonly folder: string
  readonly #file: string

  constructor(dataDir: string, sandbox: string) {
    this.folder = path.join(dataDir, 'code')
    this.#file = path.join(this.folder, `${sandbox.replace(/[^\w-]/g, '_')}.json`)
  }

  async read(): Promise<Remembered> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#file, 'utf8'))
      return typeof value === 'object' && value !== null ? value : {}
    } catch (error) {
      // A file that was cut off by a full disk has no more to say than a missing one.
      if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return {}
      throw error
    }
  }

  async add(more: Remembered): Promise<void> {
    const next = { ...(await this.read()), ...more }
    const draft = `${this.#file}.${randomBytes(6).toString('hex')}`
    await mkdir(this.folder, { recursive: true, mode: 0o700 })
    try {
      await writeFile(draft, JSON.stringify(next), { mode: 0o600 })
      await rename(draft, this.#file)
    } catch (error) {
      await rm(draft, { force: true })
      throw error
    }
  }

  async remove(): Promise<void> {
    await rm(this.#file, { force: true })
  }

  async addSession(agent: AgentName, sessionId: string): Promise<void> {
    const { sessions } = await this.read()
    await this.add({ sessions: { ...sessions, [agent]: sessionId } })
  }
}
