import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../daemon/src/testing/isolator.ts'
import { start, testDaemon } from '../helper.ts'
import { type Place, temporaryPlace } from './place.ts'

const missing = await isolationMissing()

describe.skipIf(missing)('sandkasten sandbox url', () => {
  let place: Place
  let at: Awaited<ReturnType<typeof testDaemon>>
  beforeAll(async () => {
    at = await testDaemon({ preview_listen: '127.0.0.1:0', isolator: 'oci' })
    place = await temporaryPlace()
    await place.ok(['setup', 'daemon', '--url', at.daemon.url, '--stdin'], {
      input: at.env.SANDKASTEN_API_KEY,
    })
    await place.ok(['create', 'near', '--yes'])
    await place.ok(['create', 'far', '--yes', '--provider', 'daemon'])
  })
  afterAll(async () => {
    await place?.close()
    await at?.close()
  })

  it('forwards a port that this machine must forward, until Ctrl-C, and says so', async () => {
    const child = start(['sandbox', 'url', 'near', '3000'], place.env, { stdio: ['ignore', 'pipe', 'pipe'] })
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name]!.setEncoding('utf8').on('data', (text: string) => {
        said[name] += text
      })
    await expect.poll(() => said.stderr).toContain('works until Ctrl-C')
    const server = start(
      ['sandbox', 'exec', 'near', '--', 'python3', '-m', 'http.server', '3000'],
      place.env,
      {
        stdio: 'ignore',
      },
    )
    const answer = () =>
      fetch(said.stdout.trim()).then(
        (response) => response.status,
        () => 0,
      )
    await expect.poll(answer).toBe(200)
    expect(await place.run(['stop', 'near'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('url 3000'),
    })
    child.kill('SIGINT')
    expect(await once(child, 'close')).toEqual([0, null])
    expect(await answer()).toBe(0)
    server.kill('SIGTERM')
    await once(server, 'close')
  })

  it('prints an address that outlives it, with the headers to send', async () => {
    const ran = await place.run(['url', 'far', '3000'])
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringMatching(/^http:\S+\n$/) })
    const endpoint = await place.json<{ url: string; headers: Record<string, string> }>([
      'url',
      'far',
      '3000',
    ])
    expect(endpoint.url).toBe(ran.stdout.trim())
    for (const [name, value] of Object.entries(endpoint.headers))
      expect(ran.stderr).toContain(`Send with every request: ${name}: ${value}`)
    expect(await place.ok(['url', 'far', '3000', '--protocol', 'ws'])).toBe(
      endpoint.url.replace('http:', 'ws:'),
    )
  })

  it('refuses what is no port and no protocol', async () => {
    expect(await place.run(['url', 'far', 'web'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('3000'),
    })
    expect(await place.run(['url', 'far', '70000'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('65535'),
    })
    expect(await place.run(['url', 'far', '80', '--protocol', 'tcp'])).toMatchObject({ code: 125 })
  })
})
