import { userInfo } from 'node:os'
import { readText } from '../../../read-files.ts'
import { hasProgram } from '../launch/find-program.ts'
import { RANGE_SIZE } from './id-ranges.ts'

/**
 * The ids that an ordinary account can use for sandboxes. `range`: a range that the administrator assigned in
 * `/etc/subuid` and `/etc/subgid`, and the two programs that map them. `own`: only its own id.
 */
export interface Account {
  readonly uid: number
  readonly gid: number
  readonly name: string
  readonly mode: 'range' | 'own'
  /** The first of 65536 subordinate ids; only in mode `range`. */
  readonly firstUid?: number
  readonly firstGid?: number
  /** Why the mode is `own`, and the commands that root runs to make it `range`. */
  readonly lacks: readonly { readonly what: string; readonly fix: string }[]
}

export function thisAccount(): Account {
  const [uid, gid] = [process.getuid!(), process.getgid!()]
  const tools = hasProgram('newuidmap') && hasProgram('newgidmap')
  return accountOf(
    { uid, gid, name: nameOf(uid) },
    readText('/etc/subuid') ?? '',
    readText('/etc/subgid') ?? '',
    tools,
  )
}

/** An account in a container often has no line in /etc/passwd. */
function nameOf(uid: number): string {
  try {
    return userInfo().username
  } catch {
    return String(uid)
  }
}

export function accountOf(
  who: { readonly uid: number; readonly gid: number; readonly name: string },
  subuid: string,
  subgid: string,
  tools: boolean,
): Account {
  const [firstUid, firstGid] = [firstOf(subuid, who), firstOf(subgid, who)]
  const lacks: { what: string; fix: string }[] = []
  if (!tools) lacks.push({ what: 'newuidmap and newgidmap are not installed', fix: 'apt-get install uidmap' })
  if (firstUid === undefined || firstGid === undefined) {
    const first = freeFrom(subuid, subgid)
    const range = `${first}-${first + RANGE_SIZE - 1}`
    lacks.push({
      what: `${who.name} has no ${RANGE_SIZE} subordinate ids in /etc/subuid and /etc/subgid`,
      fix: `usermod --add-subuids ${range} --add-subgids ${range} ${who.name}`,
    })
  }
  if (lacks.length > 0 || firstUid === undefined || firstGid === undefined)
    return { ...who, mode: 'own', lacks }
  return { ...who, mode: 'range', firstUid, firstGid, lacks }
}

/** `name:first:count` or `uid:first:count`. A range that contains the host's root is ignored. */
function firstOf(text: string, { uid, name }: { uid: number; name: string }): number | undefined {
  return rangesIn(text).find(
    ({ who, first, count }) => (who === name || who === String(uid)) && first > 0 && count >= RANGE_SIZE,
  )?.first
}

/** After all assigned ranges, as `useradd` chooses it. */
function freeFrom(...texts: string[]): number {
  const ends = texts.flatMap(rangesIn).map(({ first, count }) => first + count)
  return Math.max(100_000, ...ends)
}

function rangesIn(text: string): { who: string; first: number; count: number }[] {
  return text
    .split('\n')
    .map((line) => /^([^:#]+):(\d+):(\d+)\s*$/.exec(line))
    .filter((match) => match !== null)
    .map(([, who, first, count]) => ({ who: who!, first: Number(first), count: Number(count) }))
}
