import { equal, ok, rejects } from '../../assert.ts'
import { group } from '../../types.ts'

export const listing = group('labels and lists', [
  {
    id: 'labels',
    name: 'Labels given at create are in info() and in list()',
    options: ['labels'],
    async run(t) {
      const labels = { kit: t.unique('label'), 'odd key/ü': 'odd “value” = 1' }
      const sandbox = await t.create({ labels })
      const { labels: own } = await sandbox.info()
      equal([own.kit, own['odd key/ü']], [labels.kit, labels['odd key/ü']], 'labels of info()')
      const list = await t.provider.list({ labels })
      equal(
        list.map(({ id }) => id),
        [sandbox.id],
        'ids in the list',
      )
      equal(list[0]?.labels.kit, labels.kit, 'label in the list')
    },
  },
  {
    id: 'list-filter',
    name: 'list() by labels returns sandboxes that have all of them',
    options: ['labels'],
    async run(t) {
      const kit = t.unique('label')
      const both = await t.create({ labels: { kit, color: 'red' } })
      await t.create({ labels: { kit, color: 'blue' } })
      await t.create({ labels: { color: 'red' } })
      equal(
        (await t.provider.list({ labels: { kit, color: 'red' } })).map(({ id }) => id),
        [both.id],
        'ids with both labels',
      )
      equal((await t.provider.list({ labels: { kit } })).length, 2, 'number with the first label')
      equal(
        (await t.provider.list({ labels: { kit: `${kit}-none` } })).length,
        0,
        'number with an unused label',
      )
    },
  },
  {
    id: 'list-name',
    name: 'list() by name returns the sandbox with that name',
    options: ['name'],
    async run(t) {
      const name = t.unique('name')
      const sandbox = await t.create({ name })
      await t.create({ name: `${name}-2` })
      equal(
        (await t.provider.list({ name })).map(({ id }) => id),
        [sandbox.id],
        'ids',
      )
    },
  },
  {
    id: 'list-status',
    name: 'list() by status returns sandboxes in that state, or in one of several',
    options: ['labels'],
    async run(t) {
      const labels = { kit: t.unique('label') }
      await t.create({ labels })
      equal((await t.provider.list({ labels, status: 'running' })).length, 1, 'number running')
      equal((await t.provider.list({ labels, status: 'stopped' })).length, 0, 'number stopped')
      equal((await t.provider.list({ labels, status: ['stopped', 'running'] })).length, 1, 'number in either')
    },
  },
  {
    id: 'list-pages',
    name: 'list() in pages returns every sandbox once, and the last page has no cursor',
    options: ['labels'],
    async run(t) {
      const labels = { kit: t.unique('label') }
      const made = await Promise.all(Array.from({ length: 5 }, () => t.create({ labels })))
      const ids: string[] = []
      let cursor: string | undefined
      let pages = 0
      do {
        const page = await t.provider.list({ labels, limit: 2, cursor })
        ok(page.length <= 2, `a page has ${page.length} entries`)
        ids.push(...page.map(({ id }) => id))
        cursor = page.nextCursor
        pages += 1
      } while (cursor !== undefined && pages < 10)
      equal(ids.sort(), made.map(({ id }) => id).sort(), 'ids of all pages')
      equal(pages, 3, 'number of pages')
    },
  },
  {
    id: 'list-handles',
    name: 'listHandles() returns usable handles of the sandboxes that list() returns, also in pages',
    options: ['labels'],
    async run(t) {
      const labels = { kit: t.unique('label') }
      const made = await Promise.all(Array.from({ length: 3 }, () => t.create({ labels })))
      for (const [at, sandbox] of made.entries()) await sandbox.files.writeFile('number', `${at}`)
      await t.create()
      const handles = await t.provider.listHandles({ labels })
      const read = await Promise.all(
        handles.map(async (handle) => `${handle.id} ${await handle.files.readFile('number', 'utf8')}`),
      )
      equal(read.sort(), made.map(({ id }, at) => `${id} ${at}`).sort(), 'ids and contents')
      const first = await t.provider.listHandles({ labels, limit: 2 })
      const second = await t.provider.listHandles({ labels, limit: 2, cursor: first.nextCursor })
      equal(
        [...first, ...second].map(({ id }) => id).sort(),
        made.map(({ id }) => id).sort(),
        'ids of two pages',
      )
      equal([first.length, second.nextCursor], [2, undefined], 'length of page 1, and cursor of page 2')
    },
  },
  {
    id: 'list-handles-asleep',
    name: 'listHandles() wakes no sandbox: the handle of a stopped one throws not_running until start()',
    needs: ['stop'],
    options: ['labels'],
    async run(t) {
      const labels = { kit: t.unique('label') }
      const sandbox = await t.create({ labels })
      await sandbox.stop()
      const [handle] = await t.provider.listHandles({ labels })
      ok(handle, 'It is not listed')
      equal([handle.id, await sandbox.status()], [sandbox.id, 'stopped'], 'id and status')
      await rejects(t.run(handle, t.commands.exit(0)), 'not_running', 'runCommand')
      await handle.start()
      equal((await t.run(handle, t.commands.print('on'))).stdout, 'on', 'stdout after start()')
    },
  },
  {
    id: 'list-handles-creating',
    name: 'listHandles() does not wait for a sandbox that is still being set up',
    options: ['name', 'labels'],
    async run(t) {
      const labels = { kit: t.unique('label') }
      const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
      const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
      const onCreate = () => {
        begin()
        return finished
      }
      const creating = t.provider.getOrCreate(t.marked({ name: t.unique('name'), labels, onCreate }))
      creating.then((sandbox) => t.adopt(sandbox)).catch(() => {})
      await Promise.race([begun, creating])
      t.later(finish)
      equal((await t.provider.listHandles({ labels })).length, 0, 'number of handles during the setup')
      finish()
      const { id } = await creating
      equal(
        (await t.provider.listHandles({ labels })).map((handle) => handle.id),
        [id],
        'ids afterwards',
      )
    },
  },
  {
    id: 'list-all',
    name: 'list() without options returns all sandboxes, with the facts of info()',
    async run(t) {
      const sandbox = await t.create()
      const entry = (await t.provider.list()).find(({ id }) => id === sandbox.id)
      const info = await sandbox.info()
      equal(
        [entry?.sandboxId, entry?.status, entry?.createdAt?.getTime()],
        [info.sandboxId, info.status, info.createdAt?.getTime()],
        'sandboxId, status and createdAt',
      )
    },
  },
  {
    id: 'label',
    name: 'The display label is kept',
    options: ['label'],
    async run(t) {
      equal(
        (await (await t.create({ label: 'For Ada, “draft” ü' })).info()).label,
        'For Ada, “draft” ü',
        'label',
      )
    },
  },
])
