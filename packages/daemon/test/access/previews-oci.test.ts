import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOf, startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'
import { isolationMissing } from '../../src/testing/isolator.ts'
import { visit } from './preview-helper.ts'

const reason = await isolationMissing()
const program = `
const server = require('http').createServer((request, response) => {
  let bytes = 0
  request.on('data', (chunk) => { bytes += chunk.length })
  request.on('end', () => response.end(request.method + ' ' + request.url + ' ' + bytes))
})
server.listen(3000, '127.0.0.1', () => console.log('ready'))
`

describe.skipIf(reason)(`previews of isolated sandboxes${reason ? ` (skipped: ${reason})` : ''}`, () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon({ isolator: 'oci' })
  })
  afterAll(() => daemon?.stop())

  it('reach a server without a network, and tell two sandboxes with the same port apart', async () => {
    const [one, two] = await Promise.all([daemon.session(), daemon.session()])
    const run = { cmd: 'node', args: ['-e', program], exec_id: 'server', detach: true }
    await daemon.call('POST', `/v1/sessions/${one}/run`, run)
    for await (const { event } of eventsOf(
      await daemon.fetch(`/v1/sessions/${one}/execs/server/output?after=0`),
    ))
      if (event === 'stdout') break
    for (const id of [one, two])
      await daemon.call('POST', `/v1/sessions/${id}/ports`, { port: 3000, visibility: 'public' })
    const ports = async (id: string | undefined) =>
      (await daemon.call('GET', `/v1/sessions/${id}/ports`)).body.ports
    expect(await ports(one)).toMatchObject([{ port: 3000, visibility: 'public', listening: true }])
    expect(await ports(two)).toMatchObject([{ port: 3000, visibility: 'public', listening: false }])
    const at = (id: string | undefined) => ({ host: `3000-${id}.localhost`, path: '/a?b=1', method: 'POST' })
    const body = 'x'.repeat(300_000)
    expect(await visit(daemon, { ...at(one), body })).toMatchObject({
      status: 200,
      text: 'POST /a?b=1 300000',
    })
    expect((await visit(daemon, { ...at(two), body: '' })).status).toBe(502)
    // A port with a listener is listed even if it is not open.
    await daemon.call('DELETE', `/v1/sessions/${one}/ports/3000`)
    expect(await ports(one)).toMatchObject([{ port: 3000, visibility: null, url: null, listening: true }])
    expect((await visit(daemon, at(one))).status).toBe(404)
  })
})
