import type { SandboxError } from '../../../errors.ts'
import { hasRuntime, parseRuntime } from '../../../shared/runtime.ts'
import { equal, includes, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import type { Trial } from '../../trial.ts'
import { group } from '../../types.ts'

/** The runtimes that the provider names when it refuses one. */
async function runtimesHere(t: Trial): Promise<string[]> {
  const create = async () => t.adopt(await t.provider.create({ runtime: 'kit-none' }))
  return runtimesOf(await rejects(create, 'unsupported', 'create()'))
}

function runtimesOf({ details: { available } }: SandboxError): string[] {
  ok(Array.isArray(available), 'details.available is missing')
  return available
}

export const creating = group('creating, finding and destroying', [
  {
    id: 'create-running',
    name: 'A new sandbox is running, has an absolute workdir, and its id names its provider',
    async run(t) {
      const sandbox = await t.create()
      equal(await sandbox.status(), 'running', 'status')
      equal(
        [sandbox.id, sandbox.provider],
        [`${t.provider.name}:${sandbox.sandboxId}`, t.provider.name],
        'id and provider',
      )
      ok(/^(\/|[A-Za-z]:[\\/])/.test(sandbox.workdir), `workdir is ${sandbox.workdir}`)
      equal((await sandbox.files.stat('.')).type, 'directory', 'type of the workdir')
    },
  },
  {
    id: 'create-apart',
    name: 'Two sandboxes do not see each other’s files',
    async run(t) {
      const [a, b] = await Promise.all([t.create(), t.create()])
      await a.files.writeFile('mine', 'a')
      equal(await b.files.exists('mine'), false, 'whether the other one has the file')
      ok(a.sandboxId !== b.sandboxId, 'Both have the same id')
    },
  },
  {
    id: 'create-concurrent',
    name: 'Ten sandboxes created concurrently are all different and all work',
    async run(t) {
      const sandboxes = await Promise.all(Array.from({ length: 10 }, () => t.create()))
      equal(new Set(sandboxes.map(({ sandboxId }) => sandboxId)).size, 10, 'number of different ids')
      const outputs = await Promise.all(
        sandboxes.map((sandbox, index) => t.run(sandbox, t.commands.print(`${index}`))),
      )
      equal(
        outputs.map(({ stdout }) => stdout),
        sandboxes.map((_, index) => `${index}`),
        'outputs',
      )
    },
  },
  {
    id: 'info',
    name: 'info() describes the sandbox, and unknown facts are undefined',
    async run(t) {
      const sandbox = await t.create()
      const info = await sandbox.info()
      equal(
        [info.id, info.sandboxId, info.status],
        [sandbox.id, sandbox.sandboxId, 'running'],
        'id, sandboxId and status',
      )
      ok(
        info.createdAt === undefined ||
          (info.createdAt instanceof Date && Number.isFinite(info.createdAt.getTime())),
        `createdAt is ${String(info.createdAt)}`,
      )
      equal(typeof info.labels, 'object', 'type of labels')
      equal(info.name, undefined, 'name')
    },
  },
  {
    id: 'get-by-id',
    name: 'get() finds a sandbox by its id and by the provider’s own id, with the same files',
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('note', 'kept')
      for (const id of [sandbox.id, sandbox.sandboxId]) {
        const again = await t.provider.get(id)
        equal(
          [again.id, await again.files.readFile('note', 'utf8')],
          [sandbox.id, 'kept'],
          `id and content by ${id}`,
        )
      }
    },
  },
  {
    id: 'get-reopened',
    name: 'Another process of the user finds a sandbox with its files',
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('note', 'kept')
      const provider = (await t.reopened()) ?? t.provider
      equal(await (await provider.get(sandbox.id)).files.readFile('note', 'utf8'), 'kept', 'content')
    },
  },
  {
    id: 'get-unknown',
    name: 'get() of a missing sandbox throws not_found',
    async run(t) {
      await rejects(t.provider.get('no-such-sandbox'), 'not_found', 'get()')
      await rejects(t.provider.get(`${t.provider.name}:no-such-sandbox`), 'not_found', 'get() with a prefix')
    },
  },
  {
    id: 'get-foreign',
    name: 'An id of another provider is rejected, and the error names that provider',
    async run(t) {
      const error = await rejects(t.provider.get('elsewhere:abc'), 'invalid_argument', 'get()')
      ok(error.hint.includes('elsewhere'), `the hint is “${error.hint}”`)
    },
  },
  {
    id: 'get-odd-ids',
    name: 'Ids that look like paths or options throw not_found or are rejected, and do no harm',
    async run(t) {
      const sandbox = await t.create()
      for (const id of [
        '../..',
        '..',
        '.',
        '/',
        '*',
        '--all',
        `${sandbox.sandboxId}/..`,
        `../${sandbox.sandboxId}`,
        'a b',
        'ü',
      ]) {
        await rejects(t.provider.get(id), ['not_found', 'invalid_argument'], `get(${JSON.stringify(id)})`)
        const destroyed = await t.provider
          .destroy(id)
          .catch((error) =>
            ['not_found', 'invalid_argument'].includes(error?.code) ? false : Promise.reject(error),
          )
        equal(destroyed, false, `destroy(${JSON.stringify(id)})`)
      }
      equal(await sandbox.status(), 'running', 'status')
    },
  },
  {
    id: 'destroy',
    name: 'destroy() returns true once, then false',
    async run(t) {
      const sandbox = await t.create()
      equal(await sandbox.destroy(), true, 'destroy()')
      equal(await sandbox.destroy(), false, 'destroy() again')
      equal(await t.provider.destroy(sandbox.id), false, 'provider.destroy() afterwards')
    },
  },
  {
    id: 'destroy-by-provider',
    name: 'provider.destroy() accepts both ids, and returns false for an unknown one',
    async run(t) {
      const [a, b] = await Promise.all([t.create(), t.create()])
      equal(await t.provider.destroy(a.id), true, 'destroy() by id')
      equal(await t.provider.destroy(b.sandboxId), true, 'destroy() by the provider’s own id')
      equal(await t.provider.destroy('no-such-sandbox'), false, 'destroy() of an unknown id')
      await rejects(t.provider.get(a.id), 'not_found', 'get() afterwards')
    },
  },
  {
    id: 'destroy-race',
    name: 'Of several concurrent destroys, exactly one returns true',
    async run(t) {
      const sandbox = await t.create()
      const results = await Promise.all([
        sandbox.destroy(),
        sandbox.destroy(),
        t.provider.destroy(sandbox.id),
      ])
      equal(results.filter(Boolean).length, 1, 'number of trues')
    },
  },
  {
    id: 'use-after-destroy',
    name: 'Calls on a destroyed sandbox throw not_found',
    async run(t) {
      const sandbox = await t.create()
      await sandbox.destroy()
      await rejects(t.run(sandbox, t.commands.exit(0)), 'not_found', 'runCommand')
      await rejects(sandbox.spawn({ ...t.commands.exit(0) }), 'not_found', 'spawn')
      await rejects(sandbox.files.readFile('x'), 'not_found', 'readFile')
      await rejects(sandbox.files.writeFile('x', 'x'), 'not_found', 'writeFile')
      await rejects(sandbox.files.list(), 'not_found', 'list')
      await rejects(t.provider.get(sandbox.id), 'not_found', 'get')
      const status = await sandbox.status().catch((error) => error?.code)
      ok(['destroyed', 'not_found'].includes(status), `status() answers ${String(status)}`)
    },
  },
  {
    id: 'destroy-ends-processes',
    name: 'destroy() ends running programs, and readers of their output get an end or an error',
    async run(t) {
      const sandbox = await t.create()
      const process = await t.spawn(sandbox, t.commands.tree(t.unique('tree')), { detached: true })
      const reader = new EventReader(process)
      await reader.until('ready\n')
      await sandbox.destroy()
      // The reader sees the exit or an error; it must not wait forever.
      await reader.exit().catch(() => {})
      // A killed program may need a moment to disappear; a forgotten one stays forever.
      await t.eventually(
        async () => ((await t.leftovers(sandbox.sandboxId)) ?? []).length === 0,
        'Seen from outside, nothing is left of the sandbox',
      )
    },
  },
  {
    id: 'destroy-then-list',
    name: 'A destroyed sandbox is not listed',
    async run(t) {
      const sandbox = await t.create()
      ok(
        (await t.provider.list()).some(({ id }) => id === sandbox.id),
        'It is not listed while it lives',
      )
      await sandbox.destroy()
      ok(!(await t.provider.list()).some(({ id }) => id === sandbox.id), 'It is listed')
    },
  },
  {
    id: 'dispose',
    name: 'await using stops the sandbox if the provider can stop it, and never destroys it',
    async run(t) {
      const sandbox = await t.create()
      await sandbox.files.writeFile('note', 'kept')
      await sandbox[Symbol.asyncDispose]()
      equal(await sandbox.status(), t.provider.capabilities.stop ? 'stopped' : 'running', 'status')
      equal(await (await t.provider.get(sandbox.id)).files.readFile('note', 'utf8'), 'kept', 'content')
    },
  },
  {
    id: 'dispose-after-destroy',
    name: 'Leaving an await using block after destroy() does not throw',
    async run(t) {
      const sandbox = await t.create()
      await sandbox.destroy()
      await sandbox[Symbol.asyncDispose]()
    },
  },
  {
    id: 'health',
    name: 'healthCheck() is true for a working provider',
    async run(t) {
      equal(await t.provider.healthCheck(), true, 'healthCheck()')
    },
  },
  {
    id: 'runtime',
    name: 'A missing runtime throws unsupported with the runtimes that exist, and each of these can be created',
    options: ['runtime', 'labels'],
    async run(t) {
      const labels = { kit: t.unique('label') }
      // No runtime has the form of the first name, and no sandbox has the program of the second.
      for (const runtime of ['kit-none', 'node4']) {
        const create = async () => t.adopt(await t.provider.create({ runtime, labels }))
        const error = await rejects(create, 'unsupported', `create({ runtime: '${runtime}' })`)
        includes(error.message, runtime, 'the message')
        equal(error.details.option, 'runtime', 'details.option')
        const available = runtimesOf(error)
        for (const name of available) includes(error.hint, name, 'the hint')
        for (const name of t.runtimes)
          ok(available.includes(name), `${name} is missing in details.available (${available.join(', ')})`)
      }
      equal((await t.provider.list({ labels })).length, 0, 'number of sandboxes that are left')
      for (const runtime of await runtimesHere(t))
        equal(await (await t.create({ runtime })).status(), 'running', `status with ${runtime}`)
    },
  },
  {
    id: 'runtime-version',
    name: 'In a sandbox of a runtime, its program has the version that the runtime names',
    options: ['runtime'],
    program: 'version',
    async run(t) {
      for (const runtime of await runtimesHere(t)) {
        const parts = parseRuntime(runtime)
        if (!parts) continue
        const sandbox = await t.create({ runtime })
        const { stdout, exitCode } = await t.run(sandbox, t.commands.version!(parts.program))
        equal(exitCode, 0, `exit code of the program of ${runtime}`)
        const version = /\d+(?:\.\d+)*/.exec(stdout)?.[0]
        ok(hasRuntime({ [parts.program]: version }, runtime), `${runtime}: the version is ${stdout.trim()}`)
      }
    },
  },
  {
    id: 'runtime-alone',
    name: 'A runtime together with an image or a snapshot throws invalid_argument',
    options: ['runtime'],
    async run(t) {
      for (const other of ['image', 'snapshotId'] as const) {
        if (!t.provider.createOptions.has(other)) continue
        const options = { runtime: 'node24', [other]: 'kit-none' }
        const create = async () => t.adopt(await t.provider.create(options))
        await rejects(create, 'invalid_argument', `create() with runtime and ${other}`)
      }
    },
  },
  {
    id: 'create-abort',
    name: 'A cancelled create rejects with aborted and leaves nothing',
    options: ['labels'],
    async run(t) {
      const labels = { kit: t.unique('abort') }
      const controller = new AbortController()
      const creating = t.provider.create({ labels, signal: controller.signal })
      creating.then((sandbox) => t.adopt(sandbox)).catch(() => {})
      controller.abort()
      await rejects(creating, 'aborted', 'create()')
      equal((await t.provider.list({ labels })).length, 0, 'number of sandboxes that are left')
    },
  },
])
