import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import {
  type Ask,
  commandOf,
  create,
  forgetLife,
  type Kept,
  keep,
  readCounter,
  type Told,
} from './kill-load.ts'

interface Place {
  readonly ask: Ask
  readonly url: string
  readonly key: string
  readonly told: Told
  /** The daemon’s data folder. */
  readonly folder: string
}

const live = '/v1/sessions?status=creating,running,paused,stopped,crashed&limit=1000'

/** Checks after a start that all acknowledged state exists, and that nothing without an owner is left. */
export async function verify(place: Place): Promise<void> {
  const { ask, told } = place
  const found = new Map<string, { id: string; name: string | null; status: string; incarnation: number }>(
    (await ask('GET', live)).sessions.map((session: { id: string }) => [session.id, session]),
  )
  await sameOnDisk(place, found.size)
  for (const name of [...told.cutCreates]) await repeat(place, name)
  await unknown(place, [...found.values()])
  for (const session of told.sessions.values()) {
    const seen = found.get(session.id) ?? (await ask('GET', `/v1/sessions/${session.id}`))
    expect([...session.status], `status of ${session.id}: ${JSON.stringify(seen)}`).toContain(seen.status)
    await holds(place, session, seen)
  }
  await snapshotsHold(place)
  // Destroy some sessions, so that their number does not grow.
  for (const { id } of [...told.sessions.values()].sort(() => Math.random() - 0.5).slice(4)) {
    await ask('DELETE', `/v1/sessions/${id}`)
    told.sessions.delete(id)
  }
}

/** Checks that the engine's folders match the sessions and snapshots. */
async function sameOnDisk({ ask, folder, told }: Place, sessions: number): Promise<void> {
  expect(foldersOf(folder, 'sandboxes'), 'sandboxes on the disk').toHaveLength(sessions)
  const { snapshots } = await ask('GET', '/v1/snapshots?limit=1000')
  const files = foldersOf(folder, 'snapshots').filter((name) => name.endsWith('.json'))
  expect(files, 'snapshots on the disk').toHaveLength(snapshots.length)
  const others = snapshots.filter(({ id }: { id: string }) => !told.snapshots.has(id))
  expect(others.length, 'snapshots without an answer').toBeLessThanOrEqual(told.cutSnapshots)
  for (const { id } of others) await ask('DELETE', `/v1/snapshots/${id}`)
  told.cutSnapshots = 0
}

/** Repeats a create that got no response. Exactly one session must exist. */
async function repeat({ ask, told }: Place, name: string): Promise<void> {
  await create(ask, told, name)
  const { sessions } = await ask('GET', `${live}&name=${name}`)
  expect(sessions).toHaveLength(1)
}

/** Unanswered forks are complete or absent. Other sessions must have been ended. */
async function unknown(
  { ask, told }: Place,
  found: ReadonlyArray<{ id: string; name: string | null }>,
): Promise<void> {
  const others = found.filter(({ id }) => !told.sessions.has(id))
  const forks = others.filter(({ id }) => !told.leaving.has(id))
  expect(forks.length, `forks without an answer: ${JSON.stringify(forks)}`).toBeLessThanOrEqual(told.cutForks)
  told.cutForks = 0
  for (const { id, name } of forks) {
    expect(name).toBeNull()
    expect((await ask('POST', `/v1/sessions/${id}/run`, { cmd: 'true' })).exit_code).toBe(0)
  }
  for (const { id } of others) await ask('DELETE', `/v1/sessions/${id}`)
}

async function holds(
  { ask, url, key }: Place,
  session: Kept,
  seen: { status: string; incarnation: number },
): Promise<void> {
  const base = `/v1/sessions/${session.id}`
  if (seen.status === 'paused') await ask('POST', `${base}/resume`)
  if (seen.status === 'stopped' || seen.status === 'crashed')
    forgetLife(session, (await ask('POST', `${base}/start`)).incarnation)
  else if (seen.incarnation !== session.incarnation) forgetLife(session, seen.incarnation)
  session.status = new Set(['running'])
  const sh = async (script: string) =>
    (await ask('POST', `${base}/run`, { cmd: 'sh', args: ['-c', script] })).stdout as string

  // Commands without an id have ended with their request.
  await expect
    .poll(() =>
      sh('cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | grep -o "sleep 4[23]4[23]" | wc -l'),
    )
    .toBe('0\n')
  for (const shell of session.stuck)
    expect(await ask('POST', `${base}/exec`, { cmd: 'echo yes', shell })).toMatchObject({ output: 'yes\n' })

  // Repeat commands with an id: each must have run once.
  for (const [n, done] of session.commands) {
    if (done)
      expect(await ask('GET', `${base}/execs/e${n}`)).toMatchObject({
        status: 'done',
        result: { exit_code: 0, output: `said-${n}\n` },
      })
    else if (seen.status === 'running' || seen.status === 'paused') {
      const again = await ask('POST', `${base}/exec`, { cmd: commandOf(n), exec_id: `e${n}` })
      expect(again).toMatchObject({ exit_code: 0, output: `said-${n}\n` })
      session.commands.set(n, true)
    } else session.commands.delete(n)
  }
  if (!session.files.has('log')) {
    const lines = (await sh('cat /workspace/log 2>/dev/null')).split('\n').filter(Boolean)
    expect(lines.sort()).toEqual([...session.commands.keys()].map((n) => `line-${n}`).sort())
  }

  const shell = await ask('POST', `${base}/exec`, {
    cmd: `echo "$N"; pwd; ${session.job === undefined ? '' : `kill -0 ${session.job} && jobs -p`}`,
  })
  const [variable, cwd, ...jobs] = shell.output.trimEnd().split('\n')
  const numbers = [...session.shell]
  expect(numbers, 'the shell’s variable').toContain(variable)
  expect(
    numbers.map((n) => (n === '' ? '/workspace' : `/workspace/d${n}`)),
    'the shell’s directory',
  ).toContain(cwd)
  if (session.job !== undefined) expect(jobs, 'jobs of the shell').toContain(session.job)

  for (const [path, may] of session.files) {
    if (path === 'log') continue
    const content = await contentOf(ask, base, path)
    expect(may.has(content), `${path} of ${session.id}: ${content.length} characters`).toBe(true)
    session.files.set(path, new Set([content]))
  }
  await counts(ask, url, key, session)
}

/** Checks that the counter ran on without a daemon, and that no output is missing. */
async function counts(ask: Ask, url: string, key: string, session: Kept): Promise<void> {
  const { counter } = session
  if (!counter) return
  if (!counter.started) {
    // The start got no response, so the command may not exist.
    session.counter = undefined
    return
  }
  const { status } = await ask('GET', `/v1/sessions/${session.id}/execs/${counter.execId}`)
  expect(status).toBe('running')
  await readCounter(session, url, key)
  const lines = counter.text.split('\n').slice(0, -1)
  expect(lines).toEqual(lines.map((_, n) => `t${n}`))
}

async function contentOf(ask: Ask, base: string, path: string): Promise<string> {
  const cmd = { cmd: 'cat', args: [`/workspace/${path}`], max_output_bytes: 16_000_000 }
  const { exit_code, stdout } = await ask('POST', `${base}/run`, cmd)
  return exit_code === 0 ? stdout : ''
}

/** Checks one snapshot: a session that starts from it has its files. */
async function snapshotsHold({ ask, told }: Place): Promise<void> {
  const all = [...told.snapshots]
  const one = all[Math.floor(Math.random() * all.length)]
  if (!one) return
  const [id, may] = one
  const copy = keep(told, (await ask('POST', '/v1/sessions', { snapshot_id: id })).id, new Map())
  expect(may.has(await contentOf(ask, `/v1/sessions/${copy.id}`, 'up')), `snapshot ${id}`).toBe(true)
  await ask('DELETE', `/v1/sessions/${copy.id}`)
  told.sessions.delete(copy.id)
}

/** Resources on the machine that belong to the sandboxes of a data folder. */
export function traces(folder: string): string[] {
  const left = foldersOf(folder, 'sandboxes').map((name) => `folder ${name}`)
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    for (const file of ['environ', 'cmdline', 'mountinfo'])
      if (Number(pid) !== process.pid && readOr(`/proc/${pid}/${file}`).includes(folder))
        left.push(`process ${pid} (${file}): ${readOr(`/proc/${pid}/comm`)}`)
  // The name of a group ends with the pid of its shim. A group without its shim is a leftover.
  for (const group of globSync('/sys/fs/cgroup/{,*/}sandkasten/*-*')) {
    const shim = /(\d+)-\d+$/.exec(group)?.[1]
    if (!readOr(`/proc/${shim}/comm`).startsWith('shim') && existsSync(group)) left.push(`group ${group}`)
  }
  return left
}

function foldersOf(folder: string, name: string): string[] {
  try {
    return readdirSync(path.join(folder, 'engine', name)).filter((each) => !each.startsWith('.'))
  } catch {
    return []
  }
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
