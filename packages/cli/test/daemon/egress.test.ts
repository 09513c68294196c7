import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../daemon/src/testing/isolator.ts'
import { sandkasten, start, testDaemon } from '../helper.ts'

const missing = await isolationMissing()

/** `sessions egress` and `sessions network` on a daemon whose sandboxes have policies. */
describe.skipIf(missing)(`sessions egress${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let place: Awaited<ReturnType<typeof testDaemon>>
  let server: Server
  beforeAll(async () => {
    server = createServer((_, response) => response.end('the model'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    place = await testDaemon({
      isolator: 'oci',
      allowed_networks: ['none', 'open', 'policy'],
      egress: { services: { model: { host: '127.0.0.1', port } } },
    })
  }, 120_000)
  afterAll(async () => {
    await place?.close()
    server?.close()
  })

  const run = async (args: string[], input?: string) => {
    const { code, stdout, stderr } = await sandkasten(args, place.env, { input })
    if (code !== 0) throw new Error(`${args.join(' ')}: ${code} ${stderr}`)
    return stdout.trim()
  }
  const visit = (id: string, url: string) =>
    run(['exec', '--no-stdin', id, '--', `curl -sS -m 5 ${url} 2>/dev/null || echo refused`])
  const model = 'http://model.sandkasten.internal/'

  it('lists, filters and follows events', { timeout: 120_000 }, async () => {
    const created = await run(['sessions', 'create', '--allow', 'unused.example'])
    const id = created.split(/\s/)[0]!
    expect(await visit(id, 'http://one.example/')).toBe('refused')
    const all = await run(['sessions', 'egress', id, '--iso'])
    expect(all).toMatch(/^\d{4}-\S+ denied dns one\.example/m)
    expect(await run(['sessions', 'egress', id, '--verdict', 'allowed'])).toBe('')
    const last = (await run(['sessions', 'egress', id, '--denied', '--json'])).split('\n').at(-1)
    const event = JSON.parse(last!)
    expect(event).toMatchObject({ verdict: 'denied', host: 'one.example', session_id: id })

    const following = start(
      ['sessions', 'egress', id, '-f', '--after', String(event.seq), '--limit', '1', '--json'],
      place.env,
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    let followed = ''
    following.stdout!.setEncoding('utf8').on('data', (text: string) => {
      followed += text
    })
    const ended = new Promise((resolve) => following.once('close', resolve))
    expect(await visit(id, 'http://two.example/')).toBe('refused')
    expect(await ended).toBe(0)
    expect(JSON.parse(followed)).toMatchObject({ host: 'two.example', verdict: 'denied' })

    await run(['sessions', 'destroy', id])
  })

  it('learns a policy from a session with --audit', { timeout: 120_000 }, async () => {
    const created = await run(['sessions', 'create', '--audit', '--json'])
    const { id, network } = JSON.parse(created)
    expect(network).toMatchObject({ allow: [], audit: true })
    const file = `${place.home}/services.json`
    writeFileSync(file, JSON.stringify({ allow: ['unused.example'], services: ['model'] }))
    await run(['sessions', 'network', id, '--network', file, '--audit'])
    expect(await visit(id, model)).toBe('the model')
    const learned = JSON.parse(await run(['sessions', 'egress', id, '--policy']))
    expect(learned).toMatchObject({ allow: [], audit: false, services: { model: {} } })
    writeFileSync(file, JSON.stringify(learned))
    const replayed = JSON.parse(await run(['sessions', 'create', '--network', file, '--json'])).id
    expect(await visit(replayed, model)).toBe('the model')
    expect(await visit(replayed, 'http://one.example/')).toBe('refused')
    await run(['sessions', 'destroy', id, replayed])
  })
})
