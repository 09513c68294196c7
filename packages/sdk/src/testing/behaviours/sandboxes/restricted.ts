import { equal, ok } from '../../assert.ts'
import { group } from '../../types.ts'

const forbidden = [
  'destroy',
  'stop',
  'start',
  'pause',
  'resume',
  'snapshot',
  'fork',
  'extendTimeout',
  'refreshActivity',
  'getEndpoint',
  'getUrl',
  'uploadFile',
  'downloadFile',
  'restricted',
  'info',
  Symbol.asyncDispose,
]

export const restricted = group('the restricted view', [
  {
    id: 'restricted-works',
    name: 'In a restricted view commands, processes and files work',
    async run(t) {
      const sandbox = await t.sandbox()
      const view = sandbox.restricted()
      const path = t.unique('file')
      await view.files.writeFile(path, 'by the view')
      equal(await sandbox.files.readFile(path, 'utf8'), 'by the view', 'content')
      equal((await view.readFile(path)).toString(), 'by the view', 'content by the view')
      equal((await view.runCommand({ ...t.commands.print('x') })).stdout, 'x', 'stdout')
      const process = await view.spawn({ ...t.commands.print('y') })
      equal((await process.wait()).stdout, 'y', 'stdout of a spawned one')
      equal(
        [view.id, view.sandboxId, view.provider, view.workdir],
        [sandbox.id, sandbox.sandboxId, sandbox.provider, sandbox.workdir],
        'id, sandboxId, provider and workdir',
      )
      equal(await view.status(), 'running', 'status')
    },
  },
  {
    id: 'restricted-lacks',
    name: 'A restricted view cannot end, copy, expose or leave the sandbox',
    async run(t) {
      const view = (await t.sandbox()).restricted() as unknown as Record<PropertyKey, unknown>
      equal(
        forbidden.filter((name) => view[name] !== undefined).map(String),
        [],
        'forbidden members that are there',
      )
    },
  },
  {
    id: 'restricted-no-way-back',
    name: 'No property of a restricted view leads back to the sandbox',
    async run(t) {
      const sandbox = await t.sandbox()
      const view = sandbox.restricted()
      ok((view as unknown) !== sandbox, 'The view is the sandbox itself')
      const reached = new Set<unknown>()
      const visit = (value: unknown, depth: number) => {
        if (
          depth > 3 ||
          value === null ||
          (typeof value !== 'object' && typeof value !== 'function') ||
          reached.has(value)
        )
          return
        reached.add(value)
        for (const key of Reflect.ownKeys(value)) {
          const own = Object.getOwnPropertyDescriptor(value, key)
          if (own && 'value' in own) visit(own.value, depth + 1)
        }
      }
      visit(view, 0)
      ok(!reached.has(sandbox), 'The sandbox can be reached from its view')
      const prototype: unknown = Object.getPrototypeOf(view)
      ok(prototype === null || prototype === Object.prototype, 'The view inherits from something')
    },
  },
  {
    id: 'restricted-frozen',
    name: 'A restricted view cannot be extended, and reports its abilities',
    async run(t) {
      const sandbox = await t.sandbox()
      const view = sandbox.restricted() as unknown as Record<string, unknown>
      ok(Object.isFrozen(view), 'The view can be changed')
      const { capabilities } = sandbox.restricted()
      for (const ability of ['stop', 'pause', 'snapshot', 'fork', 'lifetime', 'ports'] as const) {
        equal(
          (capabilities as Record<string, unknown>)[ability],
          undefined,
          `capabilities.${ability} of the view`,
        )
      }
      equal(capabilities.reattach, sandbox.capabilities.reattach, 'capabilities.reattach')
    },
  },
])
