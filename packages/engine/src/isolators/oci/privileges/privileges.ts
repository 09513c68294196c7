import { chmodSync, lstatSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { HOST_FOLDERS } from '../../../images/host/host.ts'
import type { ImageRights } from '../../../images/rights.ts'
import type { IsolatorSpec } from '../../isolator.ts'
import { prepareDisk, rangeOf, readRange } from '../disk/disk.ts'
import type { SkeletonEntry } from '../launch/skeleton.ts'
import { accountLayout, prepareDelegation } from '../limits/account-cgroups.ts'
import {
  type CgroupLayout,
  layoutOfThisMachine,
  missingControllers,
  prepareParents,
} from '../limits/cgroups.ts'
import type { Places } from '../places.ts'
import { type Account, thisAccount } from './account.ts'
import { defaultIdRanges, type IdRangeOptions, IdRanges, RANGE_SIZE } from './id-ranges.ts'
import { type InsideIds, insideOwn, insideRange } from './inside-ids.ts'

/**
 * The privileges of the isolator: those of the host's root, or those of an ordinary account in a user namespace of
 * its own (`runner/src/shim/userns.rs` has a drawing). All differences between the two are in this folder and in
 * `limits/account-cgroups.ts`.
 */
export interface Privileges {
  readonly kind: 'root' | 'range' | 'own'
  readonly inside: InsideIds
  /** The command that starts a program which makes or removes files of sandboxes. */
  command(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
  /** The first of the sandbox's ids, as seen in the shim's namespace. */
  takeIds(places: Places): number
  freeIds(first: number, places: Places): void
  /** Frees the ids of folders that have gone. */
  sweepIds(isGone: (folder: string) => boolean): void
  prepareDisk(places: Places, spec: IsolatorSpec): void
  /** Generated files that these privileges require. */
  skeleton(spec: IsolatorSpec): SkeletonEntry[]
  /** The control groups that it may use. */
  layout(): CgroupLayout
  prepareGroups(layout: CgroupLayout, parent: string): void
  /** How sandboxes are weaker than they could be, in sentences for users. */
  weaker(layout: CgroupLayout): string[]
  readonly folders: { readonly run: string; readonly stage: string; readonly data: string }
}

export function privilegesOf(options: {
  readonly runFolder?: string | undefined
  readonly ids?: Partial<IdRangeOptions> | undefined
}): Privileges {
  return process.getuid?.() === 0
    ? rootPrivileges(new IdRanges({ ...defaultIdRanges, ...options.ids }), options.runFolder)
    : accountPrivileges(thisAccount(), options.runFolder)
}

export function rootPrivileges(ranges: IdRanges, runFolder = '/run/sandkasten'): Privileges {
  return {
    kind: 'root',
    inside: insideRange,
    command: (_runner, program, ...args) => [program, ...args],
    takeIds: (places) => rangeOf(places, ranges),
    freeIds: (first, places) => ranges.free(first, places.folder),
    sweepIds(isGone) {
      for (const [first, owner] of ranges.owners()) if (isGone(owner)) ranges.free(first, owner)
    },
    prepareDisk(places, { limits }) {
      if (limits.diskBytes === undefined) prepareDisk(places)
    },
    skeleton: () => [],
    layout: layoutOfThisMachine,
    prepareGroups: prepareParents,
    weaker: () => [],
    folders: { run: runFolder, stage: join(runFolder, 'stage'), data: '/var/lib/sandkasten' },
  }
}

export function accountPrivileges(account: Account, runFolder?: string): Privileges {
  const first = account.mode === 'range' ? 1 : 0
  const inside = account.mode === 'range' ? insideRange : insideOwn
  const map = (own: number, range: number | undefined) =>
    range === undefined ? `0:${own}:1` : `0:${own}:1,1:${range}:${RANGE_SIZE}`
  return {
    kind: account.mode,
    inside,
    command: (runner, program, ...args) => [
      runner,
      'within',
      '--uids',
      map(account.uid, account.firstUid),
      '--gids',
      map(account.gid, account.firstGid),
      '--',
      program,
      ...args,
    ],
    takeIds(places) {
      const known = readRange(places)
      if (known !== undefined && known !== first) throw madeOtherwise(places)
      writeFileSync(places.range, String(first), { mode: 0o600 })
      return first
    },
    freeIds() {},
    sweepIds() {},
    prepareDisk(places, spec) {
      if (spec.limits.diskBytes !== undefined) throw noDiskLimit()
      // The shim gives `upper` to the sandbox's root, and makes `work`.
      for (const [path, mode] of [[places.disk, 0o700] as const, [places.upper, 0o755] as const]) {
        if (mkdirSync(path, { recursive: true, mode })) chmodSync(path, mode)
      }
    },
    // The image's files belong to the account, which does not exist in a range. So the folders get the sandbox's root
    // as owner, and its user gets a home.
    skeleton: ({ image }) =>
      image !== 'host' || account.mode === 'own'
        ? []
        : [
            ...[...HOST_FOLDERS, 'root'].map((path) => ({ path, text: null, owner: 0 })),
            { path: 'home/sandbox', text: null, owner: 1000 },
          ],
    layout: accountLayout,
    prepareGroups: prepareDelegation,
    weaker: (layout) => weaknesses(account, layout),
    folders: accountFolders(account.uid, runFolder),
  }
}

/** How an account keeps images: their files have the ids of its range. Undefined for an account without a range. */
export function imageRights(account: Account = thisAccount()): ImageRights | undefined {
  const { uid, gid, firstUid, firstGid } = account
  if (account.mode !== 'range' || firstUid === undefined || firstGid === undefined) return undefined
  const within = (uids: string, gids: string) =>
    ((runner, program, ...args) => [
      ...([runner, 'within', '--uids', uids, '--gids', gids, '--', program] as const),
      ...args,
    ]) satisfies ImageRights['asSandboxes']
  // The account's own id is mapped after the range, because the account owns the parent folders.
  const whole = (first: number, own: number) => `0:${first}:${RANGE_SIZE},${RANGE_SIZE}:${own}:1`
  return {
    asSandboxes: within(whole(firstUid, uid), whole(firstGid, gid)),
    asOurselves: within(`0:${uid}:1`, `0:${gid}:1`),
  }
}

/** Every user must be able to pass through the stage, and only this one to the sockets. */
function accountFolders(uid: number, runFolder?: string): Privileges['folders'] {
  const open = `/tmp/sandkasten-engine-${uid}`
  const runtime = process.env.XDG_RUNTIME_DIR
  return {
    run: runFolder ?? (runtime && isOwn(runtime, uid) ? join(runtime, 'sandkasten') : join(open, 'run')),
    stage: join(open, 'stage'),
    data: join(process.env.SANDKASTEN_HOME ?? join(homedir(), '.sandkasten'), 'engine'),
  }
}

/** Makes the folder of an account in /tmp. Rejects a folder that another user has made there. */
export function makeStage(privileges: Privileges): void {
  const { run, stage } = privileges.folders
  if (privileges.kind !== 'root') {
    const open = join(stage, '..')
    mkdirSync(open, { recursive: true, mode: 0o755 })
    if (!isOwn(open, process.getuid!()))
      throw new SandboxError('unavailable', `${open} belongs to another user`, {
        hint: `Remove the folder as its owner or as root, and try again.`,
      })
    chmodSync(open, 0o755)
  }
  mkdirSync(run, { recursive: true, mode: privileges.kind === 'root' ? 0o755 : 0o700 })
  mkdirSync(stage, { recursive: true, mode: 0o755 })
  // Set regardless of the umask: the runtime's child has no account on the host and must pass through the folder.
  chmodSync(stage, 0o755)
  chmodSync(run, privileges.kind === 'root' ? 0o755 : 0o700)
}

function isOwn(path: string, uid: number): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  return stats?.isDirectory() === true && stats.uid === uid && (stats.mode & 0o022) === 0
}

function weaknesses({ mode }: Account, layout: CgroupLayout): string[] {
  const missing = missingControllers(layout)
  return [
    mode === 'range'
      ? 'It has the same user ids as the other sandboxes of this account.'
      : 'Its user is this account itself, with the account’s groups: code that escapes has the account’s rights. It has no root, and its commands are the same user as the program that runs them.',
    ...(missing.includes('memory')
      ? [
          'Memory is limited for each process and for files in memory, not in total, and running out of it is not reported.',
        ]
      : []),
    ...(missing.includes('pids') ? ['Processes are counted for each of its users, not together.'] : []),
    ...(missing.includes('cpu') ? ['It may use every processor.'] : []),
    ...(layout.v2 ? [] : ['It is paused by signals, which its programs can notice.']),
    'Its disk has no limit of its own.',
  ]
}

function madeOtherwise(places: Places): SandboxError {
  return new SandboxError(
    'unsupported',
    `the disk in ${places.folder} was made with other user ids than this account has now`,
    { hint: 'Give the account its earlier ids again (see /etc/subuid), or create another sandbox.' },
  )
}

const noDiskLimit = () =>
  new SandboxError('unsupported', 'a disk with a limit needs root', {
    hint: {
      sdk: 'Leave resources.diskMb out, or run the engine as root.',
      http: 'Leave limits.disk_mb out, or run the daemon as root.',
      cli: 'Leave --disk out, or run the daemon as root.',
    },
  })
