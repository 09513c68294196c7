import { SandboxError } from '../../errors.ts'
import type { CreateOption, CreateSandboxOpts } from '../../spec/index.ts'
import { assertRefused } from '../absent.ts'
import { equal, includes, ok, rejects } from '../assert.ts'
import type { Trial } from '../trial.ts'
import type { AnySandbox, Draft } from '../types.ts'
import { group } from '../types.ts'

/** Invalid values for each option of `create`. They must be rejected before anything is created. */
const nonsense: { readonly [O in CreateOption]: readonly unknown[] } = {
  name: ['', 'x'.repeat(201), 'control\u0007', 7],
  label: ['', 7],
  labels: [{ a: 1 }, 'text', { '': 'x' }],
  envVars: [{ A: 1 }, { A: null }, { 'A=B': 'x' }, { A: 'nul\0' }, 'text'],
  lifetimeMs: [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '1000'],
  snapshotId: ['', 7],
  image: ['', 7],
  runtime: ['', 7],
  ports: [[0], [65_536], [1.5], ['80']],
  resources: [{ vcpus: 0 }, { memoryMb: -1 }, { cpus: 2 }, 'big'],
  user: ['', 'admin', 0, '0:0'],
  network: ['', 'bridge', 7, null, []],
  repo: ['', 7, 'https://user:secret@example.com/repo.git'],
  gitToken: ['', 'token-without-a-repo'],
  providerOptions: ['text', 7],
}

const createOptions = Object.entries(nonsense).map(
  ([option, values]): Draft => ({
    id: `create-option-${option}`,
    name: `Invalid values in create({ ${option} }) throw invalid_argument, or unsupported if the provider lacks the option`,
    async run(t) {
      if (!t.provider.createOptions.has(option as CreateOption))
        return assertRefused(t.provider, option as CreateOption)
      for (const value of values) {
        const create = async () => t.adopt(await t.provider.create({ [option]: value } as CreateSandboxOpts))
        await rejects(create, 'invalid_argument', `create({ ${option}: ${JSON.stringify(value)} })`)
      }
    },
  }),
)

export const badInput = group('bad input', [
  ...createOptions,
  refused('bad-timeout', 'A timeout that is 0, negative or not a number is rejected', (sandbox, t) =>
    [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '100'].map(
      (timeoutMs) => () => t.run(sandbox, t.commands.exit(0), { timeoutMs: timeoutMs as number }),
    ),
  ),
  refused(
    'bad-cmd',
    'A cmd that is empty or not a string is rejected, and so is a call without options',
    (sandbox) => [
      () => sandbox.runCommand({ cmd: '' }),
      () => sandbox.runCommand({ cmd: 7 as unknown as string }),
      () => sandbox.runCommand('ls' as unknown as { cmd: string }),
      () => sandbox.runCommand(['ls'] as unknown as { cmd: string }),
      () => sandbox.runCommand(undefined as unknown as { cmd: string }),
      () => sandbox.spawn(undefined as unknown as { cmd: string }),
      () => sandbox.runCommand({ cmd: 'nul\0' }),
    ],
  ),
  refused('bad-args', 'args that are not an array of strings are rejected', (sandbox) => [
    () => sandbox.runCommand({ cmd: 'x', args: '-l' as unknown as string[] }),
    () => sandbox.runCommand({ cmd: 'x', args: [1] as unknown as string[] }),
    () => sandbox.runCommand({ cmd: 'x', args: ['nul\0'] }),
  ]),
  refused(
    'bad-env',
    'env values that are not strings, and invalid variable names, are rejected',
    (sandbox, t) =>
      [{ A: 1 }, { A: null }, { 'A=B': 'x' }, { '': 'x' }, { A: 'nul\0' }].map(
        (env) => () => t.run(sandbox, t.commands.exit(0), { env: env as unknown as Record<string, string> }),
      ),
  ),
  refused('bad-path', 'A path that is empty, not a string or contains a NUL is rejected', (sandbox) =>
    ['', 'nul\0', 7 as unknown as string].flatMap((path) => [
      () => sandbox.files.readFile(path),
      () => sandbox.files.readFileOrNull(path),
      () => sandbox.files.readLines(path),
      () => sandbox.files.writeFile(path, ''),
      () => sandbox.files.list(path),
      () => sandbox.files.stat(path),
      () => sandbox.files.rm(path),
      () => sandbox.files.mkdir(path),
      () => sandbox.files.rename(path, 'x'),
      () => sandbox.files.rename('x', path),
      () => sandbox.files.symlink(path, 'x'),
      () => sandbox.files.chmod(path, 0o600),
    ]),
  ),
  refused('bad-content', 'Content that is neither text, bytes nor a stream is rejected', (sandbox, t) => [
    () => sandbox.files.writeFile('x', 7 as unknown as string),
    () => sandbox.files.writeFile('x', { a: 1 } as unknown as string),
    () => sandbox.files.appendFile('x', null as unknown as string),
    () => t.run(sandbox, t.commands.copyInput(), { stdin: 7 as unknown as string }),
  ]),
  refused('bad-mode', 'An invalid file mode is rejected', (sandbox) => [
    () => sandbox.files.writeFile('x', '', { mode: -1 }),
    () => sandbox.files.chmod('x', 0o10000),
    () => sandbox.files.mkdir('x', { mode: 1.5 }),
  ]),
  refused('bad-range', 'An invalid range of a file is rejected', (sandbox) => [
    () => sandbox.files.readStream('x', { start: -1 }),
    () => sandbox.files.readStream('x', { start: 5, end: 4 }),
    () => sandbox.files.readStream('x', { start: 1.5 }),
    () => sandbox.files.readLines('x', { startLine: 0 }),
    () => sandbox.files.readLines('x', { startLine: 3, endLine: 2 }),
    () => sandbox.files.readLines('x', { endLine: 1.5 }),
    () => sandbox.files.readLines('x', { maxLineBytes: 0 }),
  ]),
  refused('bad-signal', 'An unknown signal is rejected', (sandbox, t) => [
    async () => (await t.spawn(sandbox, t.commands.wait())).kill('SIGWHAT' as 'SIGTERM'),
    async () => (await t.spawn(sandbox, t.commands.wait())).kill(9 as unknown as 'SIGTERM'),
  ]),
  refused('bad-process-id', 'An execId that could be a path or an option is rejected', (sandbox, t) =>
    ['', '../x', 'a/b', '-x', 'a b', 'x'.repeat(101)].map(
      (execId) => () => sandbox.spawn({ ...t.commands.exit(0), execId }),
    ),
  ),
  refused('bad-limits', 'Limits that are 0, negative or not integers are rejected', (sandbox, t) => [
    () => t.run(sandbox, t.commands.exit(0), { maxOutputBytes: 0 }),
    () => t.run(sandbox, t.commands.exit(0), { maxOutputBytes: 1.5 }),
    () => sandbox.spawn({ ...t.commands.exit(0), outputBufferBytes: -1 }),
    () => t.provider.list({ limit: 0 }),
  ]),
  refused('bad-options', 'Options that are no object are rejected', (_, t) =>
    [null, 'text', []].flatMap((options) => [
      async () => t.adopt(await t.provider.create(options as never)),
      async () => t.adopt(await t.provider.getOrCreate(options as never)),
      () => t.provider.list(options as never),
    ]),
  ),
  refused('bad-status', 'A status that does not exist is rejected', (_, t) => [
    () => t.provider.list({ status: 'runing' as 'running' }),
    () => t.provider.list({ status: ['running', 'ended'] as never }),
    () => t.provider.listHandles({ status: 7 as never }),
  ]),
  {
    id: 'unknown-option',
    name: 'An unknown option is rejected, with a suggestion',
    async run(t) {
      const sandbox = await t.sandbox()
      const calls: Array<[call: () => Promise<unknown>, meant: string]> = [
        [() => sandbox.runCommand({ ...t.commands.exit(0), timeoutMS: 5 } as never), 'timeoutMs'],
        [() => sandbox.spawn({ ...t.commands.exit(0), evn: {} } as never), 'env'],
        [async () => t.adopt(await t.provider.create({ envVar: {} } as never)), 'envVars'],
        [async () => t.adopt(await t.provider.create({ env: {} } as never)), 'envVars'],
        [() => t.provider.list({ label: {} } as never), 'labels'],
        [async () => (await t.spawn(sandbox, t.commands.exit(0))).wait({ timeout: 5 } as never), 'timeoutMs'],
        [() => t.provider.get(sandbox.id, { resumes: true } as never), 'resume'],
      ]
      if (sandbox.capabilities.shell) {
        const shell = await sandbox.openShell()
        t.later(() => shell.close())
        calls.push([() => shell.exec('true', { timeout: 5 } as never), 'timeoutMs'])
      }
      for (const [call, meant] of calls)
        includes((await rejects(call, 'invalid_argument', 'the call')).hint, meant, 'The hint')
    },
  },
  {
    id: 'bad-cursor',
    name: 'A cursor that list() never returned is rejected',
    async run(t) {
      await rejects(t.provider.list({ limit: 1, cursor: 'made up' }), 'invalid_argument', 'list()')
    },
  },
  {
    id: 'two-lifetimes',
    name: 'timeout and lifetimeMs with different values are rejected',
    options: ['lifetimeMs'],
    async run(t) {
      await rejects(
        async () => t.adopt(await t.provider.create({ timeout: 1000, lifetimeMs: 2000 })),
        'invalid_argument',
        'create()',
      )
    },
  },
  {
    id: 'error-shape',
    name: 'Every error has a code, a hint, an HTTP status and a retryable flag, as in its provider’s table',
    async run(t) {
      const error = await rejects(
        (await t.sandbox()).files.readFile('no/such/file'),
        'file_not_found',
        'readFile',
      )
      ok(SandboxError.is(error, 'file_not_found'), 'SandboxError.is() does not know it')
      equal(
        [error.status, error.retryable, error.name],
        [404, false, 'SandboxError'],
        'status, retryable and name',
      )
      equal(typeof error.details, 'object', 'type of details')
    },
  },
  {
    id: 'error-json',
    name: 'An error as JSON contains its facts but never its cause',
    async run(t) {
      const error = await rejects(
        (await t.sandbox()).runCommand({ cmd: t.commands.missing }),
        'command_not_found',
        'runCommand',
      )
      const json = JSON.parse(JSON.stringify(error)) as Record<string, unknown>
      equal(
        [json.code, json.status, json.message, json.hint],
        ['command_not_found', 404, error.message, error.hint],
        'code, status, message and hint',
      )
      ok(!('cause' in json) && !('stack' in json), 'The cause or the stack is in the JSON')
    },
  },
  {
    id: 'bad-input-harmless',
    name: 'After all these rejections the sandbox works as before',
    async run(t) {
      const sandbox = await t.sandbox()
      await sandbox.runCommand({ cmd: '' }).catch(() => {})
      equal((await t.run(sandbox, t.commands.print('fine'))).stdout, 'fine', 'stdout')
    },
  },
])

function refused(
  id: string,
  name: string,
  calls: (sandbox: AnySandbox, t: Trial) => Array<() => Promise<unknown>>,
): Draft {
  return {
    id,
    name: `${name} with invalid_argument`,
    async run(t) {
      for (const call of calls(await t.sandbox(), t))
        await rejects(call, 'invalid_argument', `the call ${call.toString().slice(0, 120)}`)
    },
  }
}
