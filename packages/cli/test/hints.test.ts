import { existsSync, globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { locateRunner } from '@sandkasten/engine'
import { errorTable, type Hints, SandboxError, type SandboxErrorCode } from '@sandkasten/sdk'
import { SandboxClient, type Session } from '@sandkasten/sdk/client'
import { parseSync } from 'oxc-parser'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inProcess, key, testDaemon } from './helper.ts'

/** Words of one surface. Settings of the daemon and its first commands are allowed everywhere. */
const words = {
  sdk: /\w\(|\bfiles\.\w|\bprovider\.\w|\{ \w+: |\b[a-z]+[A-Z]\w*/,
  http: /\b(GET|POST|PUT|PATCH|DELETE) \/|\/v1\//,
  cli: /(^|[\s(])--[a-z]|\bsandkasten (?!up\b|doctor\b|image\b|keys create\b)[a-z]+/,
}

/** The surfaces whose words appear in a hint although the hint is for another surface. */
function foreign(surface: keyof Hints | 'all', hint: string): string[] {
  // Random names of temporary folders may look like code.
  const text = hint.replace(/\/tmp\/\S+/g, '…')
  return (Object.keys(words) as Array<keyof Hints>).filter(
    (other) => other !== surface && words[other].test(text),
  )
}

describe('the default hints', () => {
  it.each(Object.keys(errorTable) as SandboxErrorCode[])('of %s use only words of their surface', (code) => {
    const { hint, hints } = new SandboxError(code, 'It failed.')
    expect(hint).toBe(hints.sdk)
    for (const surface of ['sdk', 'http', 'cli'] as const)
      expect({ surface, hint: hints[surface], foreign: foreign(surface, hints[surface]) }).toMatchObject({
        hint: expect.stringMatching(/^[A-Z].*\.$/),
        foreign: [],
      })
  })

  it('are the same on every surface only if they name no call', () => {
    const same = (Object.keys(errorTable) as SandboxErrorCode[]).filter((code) => {
      const { sdk, http, cli } = new SandboxError(code, 'It failed.').hints
      return sdk === http && http === cli
    })
    expect(same).toEqual(['path_outside', 'file_exists', 'not_a_directory', 'disk_full'])
  })
})

describe('hints in the source', () => {
  const root = path.resolve(import.meta.dirname, '../../..')
  /**
   * Code that also answers over HTTP and on the command line. Providers of vendors, recipes and clients answer only
   * to the SDK.
   */
  const files = globSync(
    [
      'packages/daemon/src/{sessions,api,http,keys,store}/**/*.ts',
      'packages/daemon/src/ports/ports.ts',
      'packages/engine/src/**/*.ts',
      'packages/sdk/src/{core,runner,folder,ports,providers/local}/**/*.ts',
      'packages/sdk/src/shared/errno-hint.ts',
    ],
    { cwd: root },
  ).filter((file) => !file.endsWith('.test.ts') && !file.includes('/testing/'))

  /** Plain hints that only users of one surface can meet. */
  const known: Array<[file: RegExp, hint: RegExp, reason: string]> = [
    [/isolators\/(oci|docker)\/isolator\.ts/, /attach\(\)|providerOptions/, 'for programs on an isolator'],
    [
      /isolators\/(oci|docker)\//,
      /oci\.|docker\.|runtimeKind|--runtime|create\(|tar -C/,
      'settings of an engine',
    ],
    [/engine\/src\/images\//, /--authfile|Dockerfile|skopeo/, 'sandkasten image only'],
    [/core\/(transfer|provider)\.ts/, /./, 'files and repositories of the caller’s machine: the SDK only'],
    [/core\/split-output\.ts/, /process\./, 'streams of a process: the SDK only'],
    [/api\/server\.ts/, /openapi\.json/, 'a route that does not exist: HTTP only'],
  ]

  it('are neutral, or written for each surface', () => {
    const wrong: string[] = []
    const used = new Set<unknown>()
    const judge = (file: string, surface: keyof Hints | 'all', hint: string) => {
      const found = foreign(surface, hint)
      const allowed = found.length > 0 && known.find(([of, text]) => of.test(file) && text.test(hint))
      if (allowed) used.add(allowed)
      else if (found.length > 0)
        wrong.push(`${file}: the hint for ${surface} uses words of ${found}: ${hint}`)
    }
    let judged = 0
    for (const file of files)
      visit(parseSync(file, readFileSync(path.join(root, file), 'utf8')).program, (surface, hint) => {
        judged += 1
        judge(file, surface, hint)
      })
    expect(wrong).toEqual([])
    expect(known.filter((one) => !used.has(one))).toEqual([])
    expect(judged).toBeGreaterThan(150)
  })

  interface Node {
    type: string
    key?: { name?: string }
    value?: Node | string
    quasis?: Array<{ value: { cooked: string } }>
    properties?: Node[]
  }

  /** Every `hint: '…'`, and every object with the three surfaces. */
  function visit(node: unknown, tell: (surface: keyof Hints | 'all', hint: string) => void): void {
    if (node === null || typeof node !== 'object') return
    const { type, key, value, properties } = node as Node
    const text = value && typeof value === 'object' ? textOf(value) : undefined
    if (type === 'Property' && key?.name === 'hint' && text !== undefined) tell('all', text)
    if (type === 'ObjectExpression') {
      const own = new Map(properties!.map((one) => [one.key?.name, one.value]))
      if (own.has('http') && own.has('cli'))
        for (const surface of ['sdk', 'http', 'cli'] as const) {
          const hint = textOf(own.get(surface) as Node | undefined)
          if (hint !== undefined) tell(surface, hint)
        }
    }
    for (const inner of Object.values(node)) visit(inner, tell)
  }

  function textOf(node: Node | undefined): string | undefined {
    if (node?.type === 'Literal' && typeof node.value === 'string') return node.value
    return node?.type === 'TemplateLiteral'
      ? node.quasis!.map(({ value }) => value.cooked).join('…')
      : undefined
  }
})

describe('a failure', () => {
  let at: Awaited<ReturnType<typeof testDaemon>>
  let session: Session
  let client: SandboxClient
  let id: string
  beforeAll(async () => {
    at = await testDaemon({ defaults: { max_exec_timeout_ms: 5000 } })
    client = new SandboxClient({ baseUrl: at.daemon.url, apiKey: key })
    session = await client.createSession({ name: 'taken' })
    id = session.id
    await session.files.mkdir('full')
    await session.files.write('full/file', 'x')
  })
  afterAll(() => at?.close())

  async function overHttp(method: string, url: string, body?: object, auth = key) {
    const response = await fetch(`${at.daemon.url}${url}`, {
      method,
      headers: { authorization: `Bearer ${auth}` },
      body: body && JSON.stringify(body),
    })
    expect(response.ok, url).toBe(false)
    return (await response.json()) as { code: string; hint: string }
  }

  const none = 'aaaaaaaaaaaaaaaa'
  const cases: Array<{
    code: SandboxErrorCode
    http: () => Promise<{ code: string; hint: string }>
    cli: () => string[]
    sdk?: () => Promise<unknown>
    /** What the hint names on each surface. */
    names: Hints
    env?: Record<string, string>
  }> = [
    {
      code: 'not_found',
      http: () => overHttp('GET', `/v1/sessions/${none}`),
      cli: () => ['sessions', 'get', none],
      sdk: () => client.getSession(none),
      names: { sdk: 'listSessions()', http: 'GET /v1/sessions', cli: 'sandkasten sessions list' },
    },
    {
      code: 'not_found',
      http: () => overHttp('POST', '/v1/sessions', { snapshot_id: none }),
      cli: () => ['sessions', 'create', '--snapshot', none],
      sdk: () => client.createSession({ snapshotId: none } as never),
      names: { sdk: 'listSnapshots()', http: 'GET /v1/snapshots', cli: 'sandkasten snapshot list' },
    },
    {
      code: 'not_found',
      http: () => overHttp('GET', '/v1/volumes/none'),
      cli: () => ['volumes', 'show', 'none'],
      sdk: () => client.getVolume('none'),
      names: { sdk: 'listVolumes()', http: 'GET /v1/volumes', cli: 'sandkasten volumes list' },
    },
    {
      code: 'not_found',
      http: () => overHttp('GET', `/v1/sessions/${id}/execs/none`),
      cli: () => ['commands', 'get', id, 'none'],
      sdk: () => session.command('none').info(),
      names: { sdk: 'listProcesses()', http: 'GET /v1/sessions/{id}/execs', cli: 'sandkasten commands list' },
    },
    {
      code: 'conflict',
      http: () => overHttp('POST', '/v1/sessions', { name: 'taken' }),
      cli: () => ['sessions', 'create', '--name', 'taken'],
      sdk: () => client.createSession({ name: 'taken' }),
      names: {
        sdk: 'listSessions({ name })',
        http: 'GET /v1/sessions?name=',
        cli: 'the name works wherever an id does',
      },
    },
    {
      code: 'unauthenticated',
      http: () => overHttp('GET', '/v1/whoami', undefined, 'sk-wrong'),
      cli: () => ['status'],
      env: { SANDKASTEN_API_KEY: 'sk-wrong' },
      sdk: () => new SandboxClient({ baseUrl: at.daemon.url, apiKey: 'sk-wrong' }).listSessions(),
      names: { sdk: 'apiKey', http: 'Authorization: Bearer', cli: 'Set SANDKASTEN_API_KEY' },
    },
    {
      code: 'file_not_found',
      http: () => overHttp('GET', `/v1/sessions/${id}/files/stat?path=none`),
      cli: () => ['files', 'stat', id, 'none'],
      sdk: () => session.files.stat('none'),
      names: { sdk: 'files.exists()', http: 'GET /v1/sessions/{id}/files/list', cli: 'Check the path.' },
    },
    {
      code: 'directory_not_empty',
      http: () => overHttp('DELETE', `/v1/sessions/${id}/files?path=full`),
      cli: () => ['files', 'remove', id, 'full'],
      sdk: () => session.files.remove('full'),
      names: { sdk: '{ recursive: true }', http: 'recursive=true', cli: '--recursive' },
    },
    {
      code: 'path_outside',
      http: () => overHttp('GET', `/v1/sessions/${id}/files/stat?path=../../x`),
      cli: () => ['files', 'stat', id, '../../x'],
      sdk: () => session.files.stat('../../x'),
      names: {
        sdk: 'relative to the sandbox’s workdir',
        http: 'relative to the sandbox’s workdir',
        cli: 'relative to the sandbox’s workdir',
      },
    },
    {
      code: 'permission_denied',
      http: () => overHttp('POST', `/v1/sessions/${id}/run`, { cmd: './full/file' }),
      cli: () => ['exec', '-d', id, '--', './full/file', 'x'],
      sdk: () => session.run('./full/file'),
      names: { sdk: 'files.chmod(path, 0o755)', http: 'POST /v1/sessions/{id}/files/chmod', cli: 'chmod +x' },
    },
    {
      code: 'command_not_found',
      http: () => overHttp('POST', `/v1/sessions/${id}/run`, { cmd: 'no-such-program' }),
      cli: () => ['exec', '-d', id, '--', 'no-such-program', 'x'],
      sdk: () => session.run('no-such-program'),
      names: { sdk: 'correct `cmd`', http: 'correct `cmd`', cli: 'correct the command' },
    },
    {
      code: 'cwd_not_found',
      http: () => overHttp('POST', `/v1/sessions/${id}/run`, { cmd: 'true', cwd: 'none' }),
      cli: () => ['exec', '-d', '-w', 'none', id, '--', 'true', 'x'],
      sdk: () => session.run('true', { cwd: 'none' }),
      names: { sdk: 'files.mkdir()', http: 'correct `cwd`', cli: 'correct --workdir' },
    },
    {
      code: 'invalid_argument',
      http: () => overHttp('POST', `/v1/sessions/${id}/exec`, { cmd: 'true', timeout_ms: 80_000_000 }),
      cli: () => ['exec', '--no-stdin', '--timeout', '20h', id, '--', 'true'],
      sdk: () => session.exec('true', { timeoutMs: 80_000_000 }),
      names: { sdk: 'timeoutMs', http: 'timeout_ms', cli: '--timeout' },
    },
    {
      code: 'invalid_argument',
      http: () => overHttp('POST', `/v1/sessions/${id}/extend`, { ttl_seconds: 31_536_001 }),
      cli: () => ['sessions', 'extend', id, '400d'],
      sdk: () => session.extend(31_536_001_000),
      names: { sdk: 'option that the message names', http: 'GET /openapi.json', cli: '--help' },
    },
    {
      code: 'not_found',
      http: () => overHttp('GET', `/v1/sessions/${id}/ports/3000`),
      cli: () => ['ports', 'get', id, '3000'],
      // The client has no call for it.
      names: { sdk: '', http: 'POST /v1/sessions/{id}/ports', cli: 'sandkasten ports open' },
    },
    {
      // Last, because it stops the session.
      code: 'not_running',
      http: async () => {
        await session.stop()
        return overHttp('POST', `/v1/sessions/${id}/exec`, { cmd: 'true' })
      },
      cli: () => ['exec', '--no-stdin', id, '--', 'true'],
      sdk: () => session.exec('true'),
      names: { sdk: 'start()', http: 'POST /v1/sessions/{id}/start', cli: 'sandkasten sessions start' },
    },
  ]

  it.each(cases.map((one, at) => [`${one.code} ${at + 1}`, one] as const))(
    'use the words of the caller’s surface: %s',
    async (_, { code, http, cli, sdk, names, env = {} }) => {
      const problem = await http()
      expect(problem).toMatchObject({ code, hint: expect.stringContaining(names.http) })
      expect(foreign('http', problem.hint), problem.hint).toEqual([])
      const ran = await inProcess(cli(), { ...at.env, ...env })
      expect(ran.code).toBeGreaterThanOrEqual(125)
      expect(ran.stderr).toMatch(/^sandkasten: .*\n {2}\S/)
      expect(ran.stderr.slice(ran.stderr.indexOf('\n'))).toContain(names.cli)
      expect(foreign('cli', ran.stderr), ran.stderr).toEqual([])
      if (!sdk) return
      const error = await sdk().then(
        () => undefined,
        (error: unknown) => error,
      )
      expect(error).toMatchObject({ code, hint: expect.stringContaining(names.sdk) })
      expect(foreign('sdk', (error as SandboxError).hint), (error as SandboxError).hint).toEqual([])
    },
  )
})

const isolates =
  process.getuid?.() === 0 && existsSync('/usr/bin/crun') && (await locateRunner().catch(() => undefined))

describe.skipIf(!isolates)('a file that cannot be written in an isolated sandbox', () => {
  let at: Awaited<ReturnType<typeof testDaemon>>
  let session: Session
  beforeAll(async () => {
    at = await testDaemon({ isolator: 'oci' })
    session = await new SandboxClient({ baseUrl: at.daemon.url, apiKey: key }).createSession()
  })
  afterAll(() => at?.close())

  it.each([
    ['/usr/share/x', /^The path is read-only\. Write below \/workspace, /],
    ['/etc/x', /^Only root may do that there\. Write below \/workspace, .*, or use --user root with /],
    [`/tmp/${'x'.repeat(300)}`, /255 bytes/],
  ])('%s: the hint depends on the path', async (file, hint) => {
    const error = await session.files.write(file, 'x').then(
      () => undefined,
      (error: unknown) => error as SandboxError,
    )
    expect(error?.hints.cli).toMatch(hint)
    expect(error?.hints.cli).not.toMatch(/chmod|mode/)
    expect(error?.hint).not.toMatch(/chmod/)
  })
})
