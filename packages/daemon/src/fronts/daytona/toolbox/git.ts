import { type CommandResult, SandboxError } from '@sandkasten/sdk'
import { gitCredentials } from '@sandkasten/sdk/provider'
import { z } from 'zod'
import type { Used } from '../../../sessions/index.ts'
import { needed, parsed } from '../../shared/request.ts'
import { type Call, type Entry, using } from '../entry.ts'
import { statusView } from './git-status.ts'

const path = z.string().min(1)
const word = z.string().min(1)
/** A branch, a commit or a key. Git would read a leading dash as an option. */
const noOption = z.string().regex(/^(?!-)/, 'must not begin with a dash')
const name = noOption.min(1)
const credentials = { username: z.string().optional(), password: z.string().optional() }
const scope = z.enum(['local', 'global', 'system']).optional()

const bodies = {
  clone: z.object({
    url: word,
    path,
    branch: z.string().optional(),
    commit_id: noOption.optional(),
    depth: z.number().int().positive().optional(),
    insecure_skip_tls: z.boolean().optional(),
    ...credentials,
  }),
  init: z.object({ path, bare: z.boolean().optional(), initial_branch: z.string().optional() }),
  add: z.object({ path, files: z.array(word).min(1) }),
  commit: z.object({
    path,
    message: z.string(),
    author: word,
    email: word,
    allow_empty: z.boolean().optional(),
  }),
  branch: z.object({ path, name: word }),
  checkout: z.object({ path, branch: name }),
  remote: z.object({
    path,
    remote: z.string().optional(),
    branch: z.string().optional(),
    set_upstream: z.boolean().optional(),
    ...credentials,
  }),
  addRemote: z.object({
    path,
    name,
    url: word,
    fetch: z.boolean().optional(),
    overwrite: z.boolean().optional(),
  }),
  reset: z.object({
    path,
    mode: z.enum(['soft', 'mixed', 'hard', 'merge', 'keep']).optional(),
    target: noOption.optional(),
    files: z.array(word).optional(),
  }),
  restore: z.object({
    path,
    files: z.array(word).min(1),
    staged: z.boolean().optional(),
    worktree: z.boolean().optional(),
    source: z.string().optional(),
  }),
  config: z.object({ key: name, value: z.string(), path: z.string().optional(), scope }),
  user: z.object({ name: word, email: word, path: z.string().optional(), scope }),
}

const configQuery = z.object({ key: name, path: z.string().optional(), scope })

/** Runs the sandbox's own git, without a shell. A password is passed in the environment of that process only. */
export function gitRoutes(entry: Entry): void {
  const on = <T extends z.ZodType>(
    route: `${'POST' | 'DELETE'} ${string}`,
    schema: T,
    work: (git: Git, body: z.infer<T>) => Promise<unknown>,
  ) => {
    const [method, name] = route.split(' ') as ['POST' | 'DELETE', string]
    entry.add(method, `/toolbox/:id/git/${name}`, 'exec', async (call) => {
      const body = parsed(schema, call.body)
      return using(call, ({ sandbox }) => work(new Git(sandbox, call), body))
    })
  }
  const look = (name: string, work: (git: Git, at: string) => Promise<unknown>) =>
    entry.add('GET', `/toolbox/:id/git/${name}`, 'read', async (call) => {
      const at = needed(call, 'path')
      return using(call, ({ sandbox }) => work(new Git(sandbox, call), at))
    })

  on('POST clone', bodies.clone, clone)
  on('POST init', bodies.init, async (git, body) => {
    const branch = body.initial_branch ? [`--initial-branch=${body.initial_branch}`] : []
    await git.run(undefined, [
      'init',
      '--quiet',
      ...(body.bare ? ['--bare'] : []),
      ...branch,
      '--',
      body.path,
    ])
  })
  on('POST add', bodies.add, async (git, body) => {
    await git.run(body.path, ['add', '--', ...body.files])
  })
  on('POST commit', bodies.commit, async (git, body) => {
    const identity = {
      GIT_AUTHOR_NAME: body.author,
      GIT_AUTHOR_EMAIL: body.email,
      GIT_COMMITTER_NAME: body.author,
      GIT_COMMITTER_EMAIL: body.email,
    }
    const empty = body.allow_empty ? ['--allow-empty'] : []
    await git.run(body.path, ['commit', '--quiet', ...empty, '-m', body.message], identity)
    return { hash: (await git.run(body.path, ['rev-parse', 'HEAD'])).trim() }
  })
  on('POST branches', bodies.branch, async (git, body) => {
    await git.run(body.path, ['branch', '--', body.name])
  })
  on('DELETE branches', bodies.branch, async (git, body) => {
    await git.run(body.path, ['branch', '-D', '--', body.name])
  })
  on('POST checkout', bodies.checkout, async (git, body) => {
    await git.run(body.path, ['checkout', '--quiet', body.branch, '--'])
  })
  on('POST pull', bodies.remote, async (git, body) => {
    await git.run(body.path, ['pull', '--quiet', ...whereTo(body)], await git.password(body))
  })
  on('POST push', bodies.remote, async (git, body) => {
    const upstream = body.set_upstream ? ['--set-upstream'] : []
    const where = whereTo(body)
    await git.run(body.path, ['push', '--quiet', ...upstream, ...where], await git.password(body))
  })
  on('POST remotes', bodies.addRemote, async (git, body) => {
    if (body.overwrite) await git.attempt(body.path, ['remote', 'remove', body.name])
    await git.run(body.path, ['remote', 'add', ...(body.fetch ? ['-f'] : []), '--', body.name, body.url])
  })
  on('POST reset', bodies.reset, async (git, body) => {
    const mode = body.files?.length ? ['--quiet'] : [`--${body.mode ?? 'mixed'}`, '--quiet']
    const target = body.target ? [body.target] : []
    await git.run(body.path, ['reset', ...mode, ...target, '--', ...(body.files ?? [])])
  })
  on('POST restore', bodies.restore, async (git, body) => {
    const flags = [
      ...(body.staged ? ['--staged'] : []),
      ...((body.worktree ?? !body.staged) ? ['--worktree'] : []),
      ...(body.source ? [`--source=${body.source}`] : []),
    ]
    await git.run(body.path, ['restore', '--quiet', ...flags, '--', ...body.files])
  })
  on('POST config', bodies.config, async (git, body) => {
    await git.run(body.path, ['config', ...scopeOf(body.scope), body.key, body.value])
  })
  on('POST config/user', bodies.user, async (git, body) => {
    const at = body.path
    await git.run(at, [
      'config',
      ...scopeOf(body.scope ?? (at ? undefined : 'global')),
      'user.name',
      body.name,
    ])
    await git.run(at, [
      'config',
      ...scopeOf(body.scope ?? (at ? undefined : 'global')),
      'user.email',
      body.email,
    ])
  })

  look('status', async (git, at) =>
    statusView(await git.run(at, ['status', '--porcelain=v2', '--branch', '-z', '--untracked-files=all'])),
  )
  look('history', async (git, at) => {
    const text = await git.run(at, ['log', '-z', '--max-count=1000', '--format=%H%n%an%n%ae%n%aI%n%B'])
    return text
      .split('\0')
      .filter((entry) => entry !== '')
      .map((entry) => {
        const [hash, author, email, timestamp, ...message] = entry.split('\n')
        return { hash, author, email, timestamp, message: message.join('\n').trimEnd() }
      })
  })
  look('branches', async (git, at) => {
    const text = await git.run(at, ['for-each-ref', '--format=%(refname:short)', 'refs/heads'])
    const current = (await git.attempt(at, ['symbolic-ref', '--short', '--quiet', 'HEAD'])).stdout.trim()
    return { branches: text.split('\n').filter((name) => name !== ''), current: current || undefined }
  })
  look('remotes', async (git, at) => {
    const text = (await git.attempt(at, ['config', '--get-regexp', '^remote\\..*\\.url$'])).stdout
    const remotes = text.split('\n').flatMap((line) => {
      const [, name, url] = /^remote\.(.+)\.url (.*)$/.exec(line) ?? []
      return name === undefined ? [] : [{ name, url }]
    })
    return { remotes }
  })
  entry.add('GET', '/toolbox/:id/git/config', 'read', async (call) => {
    const { key, path: at, ...asked } = parsed(configQuery, call.query)
    const flags = scopeOf(asked.scope)
    return using(call, async ({ sandbox }) => {
      const git = new Git(sandbox, call)
      const { exitCode, stdout } = await git.attempt(at, ['config', ...flags, '--get', key])
      return exitCode === 0 ? { value: stdout.replace(/\n$/, '') } : {}
    })
  })
}

async function clone(git: Git, body: z.infer<typeof bodies.clone>): Promise<void> {
  const flags = [
    ...(body.branch ? [`--branch=${body.branch}`] : []),
    ...(body.depth ? [`--depth=${body.depth}`] : []),
  ]
  const env = {
    ...(body.password === undefined ? {} : credentialsFor(body.url, body.username, body.password)),
    ...(body.insecure_skip_tls ? { GIT_SSL_NO_VERIFY: '1' } : {}),
  }
  await git.run(undefined, ['clone', '--quiet', ...flags, '--', body.url, body.path], env)
  if (body.commit_id) await git.run(body.path, ['checkout', '--quiet', body.commit_id, '--'])
}

function whereTo({ remote, branch }: { remote?: string; branch?: string }): string[] {
  if (remote === undefined && branch === undefined) return []
  return ['--', remote ?? 'origin', ...(branch ? [branch] : [])]
}

function scopeOf(given: z.infer<typeof scope>): string[] {
  return given ? [`--${given}`] : []
}

function credentialsFor(url: string, username: string | undefined, password: string): Record<string, string> {
  if (!/^https?:\/\//.test(url))
    throw new SandboxError('invalid_argument', 'username and password need a URL that begins with https://')
  return gitCredentials(url, { username: username || undefined, password })
}

class Git {
  readonly #sandbox: Used['sandbox']
  readonly #call: Call

  constructor(sandbox: Used['sandbox'], call: Call) {
    this.#sandbox = sandbox
    this.#call = call
  }

  /** Runs git and returns its output. A failure becomes the vendor's error for it. */
  async run(
    at: string | undefined,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Promise<string> {
    const result = await this.attempt(at, args, env)
    if (result.exitCode === 0) return result.stdout
    throw failure(args[0]!, result)
  }

  async attempt(
    at: string | undefined,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Promise<CommandResult> {
    return this.#sandbox.runCommand({
      cmd: 'git',
      args: [...(at ? ['-C', at] : []), ...args],
      env: { GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C', ...env },
      timeoutMs: this.#call.place.services.config.defaults.max_exec_timeout_ms,
      signal: this.#call.signal,
    })
  }

  /** The environment with the password for the remote's host. */
  async password(body: z.infer<typeof bodies.remote>): Promise<Record<string, string>> {
    if (body.password === undefined) return {}
    const url = await this.run(body.path, ['remote', 'get-url', '--', body.remote ?? 'origin'])
    return credentialsFor(url.trim(), body.username, body.password)
  }
}

/** Classifies by git's messages, in the C locale, because its exit codes say little. */
function failure(command: string, { stderr, stdout, timedOut }: CommandResult): SandboxError {
  const said = (stderr || stdout).trim().slice(-1000)
  if (timedOut) return new SandboxError('timeout', `git ${command} timed out`)
  const [code, daytonaCode] = kinds.find(([pattern]) => pattern.test(said))?.[1] ?? [
    'invalid_argument',
    'BAD_REQUEST',
  ]
  return new SandboxError(code, said || `git ${command} failed`, { details: { daytonaCode } })
}

const kinds: ReadonlyArray<[RegExp, ['unauthenticated' | 'not_found' | 'conflict', string]]> = [
  [
    /Authentication failed|could not read Username|terminal prompts disabled/,
    ['unauthenticated', 'GIT_AUTH_FAILED'],
  ],
  [
    /not a git repository|cannot change to|[Rr]epository .*not found|does not appear to be a git repo/,
    ['not_found', 'GIT_REPO_NOT_FOUND'],
  ],
  [
    /Remote branch .* not found|pathspec .* did not match|invalid reference/,
    ['not_found', 'GIT_BRANCH_NOT_FOUND'],
  ],
  [/already exists/, ['conflict', 'GIT_BRANCH_EXISTS']],
  [/\[rejected\]|\[remote rejected\]/, ['conflict', 'GIT_PUSH_REJECTED']],
  [/would be overwritten/, ['conflict', 'GIT_DIRTY_WORKTREE']],
  [/CONFLICT|Merge conflict/, ['conflict', 'GIT_MERGE_CONFLICT']],
]
