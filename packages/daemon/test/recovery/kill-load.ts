import { eventsOf } from '../../src/testing/daemon.ts'

/** A session as its client knows it. After a request without a response, several states are possible. */
export interface Kept {
  readonly id: string
  status: Set<string>
  incarnation: number
  /** Possible values of the shell’s directory and variable. */
  shell: Set<string>
  /** The number of a job in the shell’s background. */
  job?: string
  readonly files: Map<string, Set<string>>
  /** Commands with an id, by number; true when the result came. */
  readonly commands: Map<number, boolean>
  /** Shells in which a command without an id never ended. */
  readonly stuck: Set<string>
  /** A program that counts forever, and its output that was read. */
  counter?: { execId: string; started: boolean; after: number; text: string }
}

/** Results that clients have received, and requests that got no response. */
export class Told {
  readonly sessions = new Map<string, Kept>()
  /** Names, which are idempotency keys too. */
  readonly cutCreates = new Set<string>()
  /** Sessions whose destroy got no response: they may exist or not. */
  readonly leaving = new Set<string>()
  readonly snapshots = new Map<string, Set<string>>()
  /** Forks and snapshots without a response: each may exist or not. */
  cutForks = 0
  cutSnapshots = 0
  answers = 0
  #next = 0

  next(): number {
    this.#next += 1
    return this.#next
  }
}

export type Ask = (
  method: string,
  where: string,
  body?: unknown,
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
) => Promise<any>

/** The connection to the daemon was lost. */
export class Cut extends Error {}

/** Calls one daemon. Throws `Cut` when the connection is lost, and an error with the problem when it refuses. */
export function asker(url: string, key: string): Ask {
  return async (method, where, body) => {
    let response: Response
    let text: string
    try {
      response = await fetch(`${url}${where}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      })
      text = await response.text()
    } catch {
      throw new Cut()
    }
    if (response.status >= 400) throw new Error(`${method} ${where}: ${response.status} ${text}`)
    return JSON.parse(text)
  }
}

/** One client: creates sessions and performs random actions in them until the daemon is killed. */
export async function work(given: { ask: Ask; url: string; key: string; told: Told }): Promise<void> {
  const { ask, told } = given
  const own: Kept[] = []
  const left: Array<Promise<unknown>> = []
  try {
    for (;;) {
      const session = own[Math.floor(Math.random() * (own.length + 1))]
      if (!session || own.length === 0) own.push(await create(ask, told))
      else {
        const step = steps[Math.floor(Math.random() * steps.length)]!
        await step(session, { ...given, left, own })
      }
      told.answers += 1
    }
  } catch (error) {
    if (!(error instanceof Cut)) throw error
  } finally {
    await Promise.all(left)
  }
}

type Step = (
  session: Kept,
  given: { ask: Ask; url: string; key: string; told: Told; left: Array<Promise<unknown>>; own: Kept[] },
) => Promise<void>

const base = (session: Kept) => `/v1/sessions/${session.id}`

export async function create(ask: Ask, told: Told, name = `n${told.next()}`): Promise<Kept> {
  told.cutCreates.add(name)
  const { id } = await ask('POST', '/v1/sessions', { idempotency_key: name, name })
  told.cutCreates.delete(name)
  return keep(told, id, new Map())
}

export function keep(told: Told, id: string, files: Map<string, Set<string>>): Kept {
  const session: Kept = {
    id,
    status: new Set(['running']),
    incarnation: 1,
    shell: new Set(['']),
    files,
    commands: new Map(),
    stuck: new Set(),
  }
  told.sessions.set(id, session)
  return session
}

/** Removes the state that a new start of the sandbox loses: everything but its disk. */
export function forgetLife(session: Kept, incarnation: number): void {
  session.incarnation = incarnation
  session.status = new Set(['running'])
  session.shell = new Set([''])
  session.job = undefined
  session.counter = undefined
}

export const commandOf = (n: number) => `echo line-${n} >> /workspace/log; sleep 0.0${n % 5}; echo said-${n}`

const steps: Step[] = [
  async function command(session, { ask, told }) {
    const n = told.next()
    session.commands.set(n, false)
    const body = { cmd: commandOf(n), exec_id: `e${n}` }
    const result = await ask('POST', `${base(session)}/exec`, body)
    if (result.exit_code !== 0 || result.output !== `said-${n}\n`)
      throw new Error(`command ${n}: ${JSON.stringify(result)}`)
    session.commands.set(n, true)
  },
  async function shell(session, { ask, told }) {
    const n = String(told.next())
    session.shell.add(n)
    const cmd = `mkdir -p /workspace/d${n} && cd /workspace/d${n} && export N=${n}`
    const { cwd } = await ask('POST', `${base(session)}/exec`, { cmd })
    if (cwd !== `/workspace/d${n}`) throw new Error(`cwd ${cwd}, not d${n}`)
    session.shell = new Set([n])
  },
  async function job(session, { ask }) {
    if (session.job !== undefined) return
    const { output } = await ask('POST', `${base(session)}/exec`, { cmd: 'sleep 1000 & echo $!' })
    session.job = output.trim()
  },
  async function file(session, { ask, told }) {
    const path = `f${told.next() % 2}`
    const content = `${told.next()}-`.repeat(1 + Math.floor(Math.random() * 20_000))
    const may = session.files.get(path) ?? new Set([''])
    session.files.set(path, may.add(content))
    await ask('POST', `${base(session)}/fs/write`, { path: `/workspace/${path}`, content })
    session.files.set(path, new Set([content]))
  },
  async function upload(session, { ask, told }) {
    const content = `${told.next()}+`.repeat(1 + Math.floor(Math.random() * 50_000))
    const may = session.files.get('up') ?? new Set([''])
    session.files.set('up', may.add(content))
    await ask('PUT', `${base(session)}/files?path=/workspace/up`, content)
    session.files.set('up', new Set([content]))
  },
  async function counter(session, { ask, told, url, key }) {
    if (!session.counter) {
      const execId = `count-${told.next()}`
      session.counter = { execId, started: false, after: 0, text: '' }
      await ask('POST', `${base(session)}/run`, countBody(execId))
      session.counter.started = true
    } else if (session.counter.started) await readCounter(session, url, key)
  },
  // These two never get a response: commands without an id end with their request.
  async function endless(session, { ask, left }) {
    if (left.length > 3) return
    left.push(ask('POST', `${base(session)}/run`, { cmd: 'sleep', args: ['4242'] }).catch(() => {}))
  },
  async function endlessInShell(session, { ask, left }) {
    if (left.length > 3) return
    const body = { cmd: 'sleep 4343', shell: `other${left.length}` }
    session.stuck.add(body.shell)
    left.push(ask('POST', `${base(session)}/exec`, body).catch(() => {}))
  },
  async function snapshot(session, { ask, told }) {
    if (told.snapshots.size > 4) return
    told.cutSnapshots += 1
    const { id } = await ask('POST', `${base(session)}/snapshots`, {})
    told.cutSnapshots -= 1
    told.snapshots.set(id, new Set(session.files.get('up') ?? ['']))
  },
  async function deleteSnapshot(_, { ask, told }) {
    const [id] = told.snapshots.keys()
    if (id === undefined || told.snapshots.size < 3) return
    told.snapshots.delete(id)
    told.cutSnapshots += 1
    await ask('DELETE', `/v1/snapshots/${id}`)
    told.cutSnapshots -= 1
  },
  async function fork(session, { ask, told, own }) {
    if (own.length > 2) return
    told.cutForks += 1
    const { sessions } = await ask('POST', `${base(session)}/fork`, { count: 1 })
    told.cutForks -= 1
    const files = [...session.files].map(([path, may]) => [path, new Set(may)] as const)
    const copy = keep(told, sessions[0].id, new Map(files))
    copy.commands.clear()
    copy.files.set('log', new Set())
    own.push(copy)
  },
  async function stopAndStart(session, { ask, left }) {
    if (left.length > 0) return
    session.status.add('stopped').add('crashed')
    await ask('POST', `${base(session)}/stop`)
    forgetLife(session, session.incarnation)
    session.status = new Set(['stopped', 'running'])
    const { incarnation } = await ask('POST', `${base(session)}/start`)
    forgetLife(session, incarnation)
  },
  async function pauseAndResume(session, { ask }) {
    session.status.add('paused')
    await ask('POST', `${base(session)}/pause`)
    session.status = new Set(['paused', 'running'])
    await ask('POST', `${base(session)}/resume`)
    session.status = new Set(['running'])
  },
  async function destroy(session, { ask, told, own }) {
    if (own.length < 2) return
    own.splice(own.indexOf(session), 1)
    told.sessions.delete(session.id)
    told.leaving.add(session.id)
    await ask('DELETE', base(session))
  },
]

const countBody = (execId: string) => ({
  cmd: 'sh',
  args: ['-c', 'i=0; while [ ! -e /workspace/enough ]; do echo t$i; i=$((i+1)); sleep 0.02; done; echo end'],
  exec_id: execId,
  detach: true,
})

/** Reads more of the counter's output after the known part, with `toEnd` until its end. */
export async function readCounter(
  session: Kept,
  url: string,
  key: string,
  { events = 5, toEnd = false } = {},
): Promise<void> {
  const { counter } = session
  if (!counter) return
  const leaving = new AbortController()
  try {
    const where = `${url}${base(session)}/execs/${counter.execId}/output?after=${counter.after}`
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(where, { headers, signal: leaving.signal })
    if (!response.ok) throw new Error(`${where}: ${response.status} ${await response.text()}`)
    let read = 0
    for await (const { event, id, data } of eventsOf(response)) {
      if (event === 'stdout') counter.text += data.text
      if (event === 'stdout' || event === 'exit') counter.after = Number(id)
      read += 1
      if (event === 'exit' || (!toEnd && read >= events)) return
    }
    throw new Cut()
  } catch (error) {
    if (error instanceof TypeError) throw new Cut()
    throw error
  } finally {
    leaving.abort()
  }
}
