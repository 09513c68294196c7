import path from 'node:path'
import type { Registry } from '@sandkasten/registry'
import { type Network, SandboxError } from '@sandkasten/sdk'
import type { Context } from './context.ts'
import { Engine } from './engine.ts'
import { defaultLimits, type ThreadLimits } from './limits.ts'
import type { AgentOpener } from './spec/agents.ts'
import type { Chat, Posts } from './spec/chat.ts'
import type { SandboxOptions, Threads } from './spec/threads.ts'
import { Spool } from './spool.ts'
import { type DatabaseLocation, defaultLocation, openStore, threadsFolder } from './store/index.ts'
import { Worker } from './worker/worker.ts'

export interface OpenThreadsOptions {
  /** The bot, or another name that is unique for each chat on this database. */
  readonly appId: string
  /** The app that sandboxes belong to in the registry. Default: `appId`. Empty: those of the command line. */
  readonly sandboxAppId?: string
  /** Where sandboxes are. The caller closes it, after the threads. */
  readonly registry: Registry
  readonly agents: AgentOpener
  /** The chat, or a function that makes it and gets the place for its posts. */
  readonly chat: Chat | ((posts: Posts) => Chat)
  /** Default: the Postgres database of `SANDKASTEN_REGISTRY_URL`, or an SQLite file in the folder of threads. */
  readonly database?: DatabaseLocation
  /** Default: `SANDKASTEN_HOME`, or the folder that the registry uses. */
  readonly dataDir?: string
  /** Of new sandboxes, unless the thread has its own. */
  readonly sandboxDefaults?: SandboxOptions
  /**
   * What an agent inside reaches, for new sandboxes whose network was not chosen. A provider that cannot enforce it uses
   * its own default.
   */
  readonly agentNetwork?: Network
  readonly limits?: Partial<ThreadLimits>
  /** The users of the chat are on this machine, so links to its loopback work for them. Default false. */
  readonly allowsLocalLinks?: boolean
  /** Failures that no user can see, such as a database that is away for a moment. Default: stderr. */
  readonly onError?: (error: unknown) => void
  /** How often the database is read for what other processes have written. Default 1 s. */
  readonly lookMs?: number
  /** The first wait before a failed call of the chat is repeated. Default 500 ms. */
  readonly retryMs?: number
  /** Default: the variables of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>
}

/** Opens the conversations of one app. Several processes may have them open; one of those that were started works. */
export async function openThreads(options: OpenThreadsOptions): Promise<Threads> {
  const { appId, sandboxAppId = appId, registry, agents, limits: given, allowsLocalLinks = false } = options
  if (appId === '') throw new SandboxError('invalid_argument', '`appId` must not be empty.')
  const { env: variables = process.env, dataDir, lookMs = 1_000, retryMs = 500 } = options
  const env = dataDir === undefined ? variables : { ...variables, SANDKASTEN_HOME: dataDir }
  const folder = await threadsFolder(env)
  const limits = { ...defaultLimits, ...given }
  const store = await openStore(options.database ?? defaultLocation(folder, env), appId)
  try {
    const chat = typeof options.chat === 'function' ? options.chat(store.posts) : options.chat
    const spool = new Spool(path.join(folder, 'spool', encodeURIComponent(appId)), limits)
    const parts = {
      sandboxDefaults: options.sandboxDefaults ?? {},
      agentNetwork: options.agentNetwork,
      appId,
      sandboxAppId,
      store,
      registry,
      chat,
      agents,
      spool,
      limits,
      allowsLocalLinks,
      retryMs,
    }
    const context: Context = { ...parts, now: () => Date.now() }
    const onError = options.onError ?? ((error: unknown) => console.error('sandkasten threads:', error))
    return new Engine(context, new Worker(context, { lookMs, onError }), () => store.close())
  } catch (error) {
    await store.close()
    throw error
  }
}
