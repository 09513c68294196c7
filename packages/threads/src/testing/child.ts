/** A process that runs the engine for messages in a file. Its argument: `ChildTask` as JSON. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openRegistry } from '@sandkasten/registry'
import { LocalProvider } from '@sandkasten/sdk/local'
import { openThreads } from '../open-threads.ts'
import { RecordingChat } from './recording-chat.ts'
import { ScriptedAgents } from './scripted-agents.ts'

export interface ChildTask {
  readonly dataDir: string
}

/** One line of `inbox.jsonl`: a message of a user, as a chat delivers it again after a restart. */
export interface Delivered {
  readonly threadId: string
  readonly id: string
  readonly text: string
}

const by = { id: 'u1', name: 'Ann' }
const { dataDir } = JSON.parse(process.argv[2]!) as ChildTask
const provider = new LocalProvider({ root: path.join(dataDir, 'local'), acceptNoIsolation: true })
const kinds = [{ provider: 'local', title: 'Local', fields: [], make: () => provider }]
const limits = { perGuild: 1_000, perChannel: 1_000 }
const registry = await openRegistry({ dataDir, kinds, defaultProvider: 'local', env: {}, limits })
const threads = await openThreads({
  appId: 'bot',
  registry,
  agents: new ScriptedAgents(path.join(dataDir, 'agents'), { workMs: 60 }),
  chat: (posts) => new RecordingChat(path.join(dataDir, 'chat.jsonl'), posts),
  dataDir,
  env: {},
  limits: { threadsPerUser: 1_000 },
  lookMs: 20,
  retryMs: 5,
})
await threads.start()
const inbox = path.join(dataDir, 'inbox.jsonl')
let delivered = 0
for (;;) {
  const lines = existsSync(inbox) ? readFileSync(inbox, 'utf8').split('\n').filter(Boolean) : []
  for (const line of lines.slice(delivered)) {
    const { threadId, id, text } = JSON.parse(line) as Delivered
    const message = { id, by, text, attachments: [attachment(text)] }
    await threads.begin({
      ...{ threadId, channelId: 'c1', guildId: 'g1', title: threadId, by },
      sandbox: { create: {} },
      ...(id.endsWith('-1') && { message }),
    })
    await threads.say({ threadId, ...message })
  }
  delivered = lines.length
  await wait(20)
}

function attachment(text: string) {
  const bytes = Buffer.from(`file of ${text}`)
  return {
    name: 'note.txt',
    sizeBytes: bytes.byteLength,
    load: async () =>
      (async function* () {
        yield bytes
      })(),
  }
}
