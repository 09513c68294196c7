import { equal, ok, rejects } from '../../assert.ts'
import { group } from '../../types.ts'

export const names = group('names', [
  {
    id: 'name',
    name: 'A sandbox has its given name, on its handle and in its info',
    options: ['name'],
    async run(t) {
      const name = `${t.unique('name')} with “odd” characters / ü`
      const sandbox = await t.create({ name })
      equal(
        [sandbox.name, (await sandbox.info()).name, (await t.provider.get(sandbox.id)).name],
        [name, name, name],
        'name of handle, info and a new handle',
      )
    },
  },
  {
    id: 'get-by-name',
    name: 'get({ name }) finds exactly the sandbox with that name, and starts it unless resume: false',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      await t.create({ name: `${name}-2` })
      const sandbox = await t.create({ name })
      await sandbox.files.writeFile('note', 'kept')
      const again = await t.provider.get({ name })
      equal([again.id, again.name], [sandbox.id, name], 'id and name')
      if (!t.provider.capabilities.stop) return
      await sandbox.stop()
      const asleep = await t.provider.get({ name }, { resume: false })
      equal([asleep.id, await asleep.status()], [sandbox.id, 'stopped'], 'id and status without resume')
      const awake = await t.provider.get({ name })
      equal(
        [awake.id, await awake.files.readFile('note', 'utf8')],
        [sandbox.id, 'kept'],
        'id and content after the start',
      )
    },
  },
  {
    id: 'get-by-name-missing',
    name: 'get() by a name that no sandbox has throws not_found and creates nothing; an invalid name is rejected',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      await rejects(async () => t.adopt(await t.provider.get({ name })), 'not_found', 'get()')
      equal((await t.provider.list({ name })).length, 0, 'number of sandboxes with the name')
      await (await t.create({ name })).destroy()
      await rejects(t.provider.get({ name }), 'not_found', 'get() after destroy()')
      for (const wrong of [{ name: '' }, { name: 7 }, {}, null, { nmae: name }])
        await rejects(
          t.provider.get(wrong as { name: string }),
          'invalid_argument',
          `get(${JSON.stringify(wrong)})`,
        )
    },
  },
  {
    id: 'name-conflict',
    name: 'A taken name throws conflict, and the first sandbox is unaffected',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      const first = await t.create({ name })
      await rejects(async () => t.adopt(await t.provider.create({ name })), 'conflict', 'create()')
      equal(
        [await first.status(), (await t.provider.list({ name })).length],
        ['running', 1],
        'status of the first, and number with this name',
      )
    },
  },
  {
    id: 'name-race',
    name: 'Of five concurrent creates with one name, one succeeds and the others throw conflict',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      const results = await Promise.allSettled(Array.from({ length: 5 }, () => t.create({ name })))
      const codes = results
        .map((result) => (result.status === 'fulfilled' ? 'made' : result.reason?.code))
        .sort()
      equal(codes, ['conflict', 'conflict', 'conflict', 'conflict', 'made'], 'what came of them')
    },
  },
  {
    id: 'name-free-again',
    name: 'A name is available again after its sandbox is destroyed',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      const first = await t.create({ name })
      await first.destroy()
      const second = await t.create({ name })
      ok(second.sandboxId !== first.sandboxId, 'The second has the id of the first')
    },
  },
  {
    id: 'get-or-create',
    name: 'getOrCreate() creates a sandbox once and finds it afterwards; onCreate and onResume tell which',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      const log: string[] = []
      const get = () =>
        t.provider.getOrCreate(
          t.marked({
            name,
            onCreate: async (sandbox) => {
              await sandbox.files.writeFile('made', 'yes')
              log.push('created')
            },
            onResume: () => void log.push('resumed'),
          }),
        )
      const first = t.adopt(await get())
      const second = await get()
      equal(
        [log, second.id, second.name],
        [['created', 'resumed'], first.id, name],
        'callbacks, id and name of the second',
      )
      equal(await second.files.readFile('made', 'utf8'), 'yes', 'content')
    },
  },
  {
    id: 'get-or-create-race',
    name: 'Five concurrent getOrCreate() calls get one sandbox, and onCreate runs once, before any of them returns',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      let created = 0
      const providers = [t.provider, (await t.reopened()) ?? t.provider]
      const all = await Promise.all(
        Array.from({ length: 5 }, async (_, index) => {
          const sandbox = await providers[index % 2]!.getOrCreate(
            t.marked({
              name,
              onCreate: async (made) => {
                created += 1
                await made.files.writeFile('ready', 'yes')
              },
            }),
          )
          t.adopt(sandbox)
          return [sandbox.id, await sandbox.files.readFile('ready', 'utf8')]
        }),
      )
      equal(
        [new Set(all.map(([id]) => id)).size, created],
        [1, 1],
        'number of sandboxes and of onCreate calls',
      )
      equal(
        all.map(([, content]) => content),
        all.map(() => 'yes'),
        'what onCreate wrote, as each caller found it',
      )
    },
  },
  {
    id: 'get-or-create-failure',
    name: 'If onCreate fails, the call rejects with its error, and no sandbox is left',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      let message = ''
      await t.provider
        .getOrCreate({
          name,
          onCreate() {
            throw new Error('set-up failed')
          },
        })
        .then(
          (sandbox) => void t.adopt(sandbox),
          (error) => {
            message = String(error?.message)
          },
        )
      equal(
        [message, (await t.provider.list({ name })).length],
        ['set-up failed', 0],
        'the error, and number of sandboxes left',
      )
    },
  },
  {
    id: 'get-or-create-resumes',
    name: 'getOrCreate() starts a stopped sandbox',
    options: ['name'],
    needs: ['stop'],
    async run(t) {
      const name = t.unique('name')
      const first = await t.create({ name })
      await first.files.writeFile('note', 'kept')
      await first.stop()
      const again = await t.provider.getOrCreate({ name })
      equal(
        [again.id, await again.status(), await again.files.readFile('note', 'utf8')],
        [first.id, 'running', 'kept'],
        'id, status and content',
      )
    },
  },
])
