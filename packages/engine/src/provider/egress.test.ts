import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { gatewayFolder } from '../egress/gateway-user.ts'
import { hasProgram } from '../isolators/oci/launch/find-program.ts'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { type EgressCage, egressCage, PUBLIC, type RemoteEngine } from './testing/egress-cage.ts'

const missing = ['openssl', 'curl', 'nsenter', 'ip'].filter((program) => !hasProgram(program))
const reason = (await reasonToSkip()) ?? (missing.length > 0 ? `needs ${missing.join(', ')}` : undefined)
const SECRET = 'the-value-that-no-sandbox-sees'

describe.skipIf(reason)(`network policies on oci${reason ? ` (${reason})` : ''}`, () => {
  let cage: EgressCage
  let engine: RemoteEngine

  beforeAll(async () => {
    cage = await egressCage()
    engine = await cage.engine()
  }, 300_000)
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]()
    await cage?.[Symbol.asyncDispose]()
  }, 60_000)

  const fetch = async (id: string, url: string, from = engine) => {
    const { exitCode, stdout, stderr } = await from.run(id, `curl -sS --max-time 10 ${url}`)
    return exitCode === 0 ? stdout : `exit ${exitCode}: ${stderr}`
  }
  const failed = /^exit/
  /** The pid of the cage's gateway. */
  const gateway = () => {
    const folder = path.join('/run/sandkasten', gatewayFolder(cage.root))
    const [pid] = readdirSync('/proc').filter(
      (name) => /^\d+$/.test(name) && readOr(`/proc/${name}/cmdline`).includes(folder),
    )
    return pid === undefined ? undefined : Number(pid)
  }
  const allowed = { allow: ['allowed.test'] }

  it('allows what the policy names, and refuses and records all else', async () => {
    const id = await engine.create({ network: allowed })
    expect(JSON.parse(await fetch(id, 'https://allowed.test/a --insecure'))).toMatchObject({
      host: 'allowed.test',
    })
    expect(JSON.parse(await fetch(id, 'http://allowed.test/b'))).toMatchObject({ path: '/b' })
    expect(await fetch(id, 'https://other.test/ --insecure')).toMatch(failed)
    expect(await fetch(id, `https://${PUBLIC}/ --insecure`)).toMatch(failed)
    expect(await fetch(id, `https://other.test/ --insecure --resolve other.test:443:${PUBLIC}`)).toMatch(
      failed,
    )
    const events = await engine.events(id)
    const verdicts = events.map(({ host, verdict, reason }) => `${host} ${verdict} ${reason}`)
    expect(verdicts).toContain('allowed.test allowed null')
    expect(verdicts.filter((text) => text.includes('denied')).length).toBeGreaterThan(1)
    expect(events.map(({ seq }) => seq)).toEqual([...events.map(({ seq }) => seq)].sort((a, b) => a - b))
    expect((await engine.stats(id)).refused).toBeGreaterThan(0)
    await engine.destroy(id)
  }, 120_000)

  it('the gateway is an unprivileged process that owns nothing else', async () => {
    const id = await engine.create({ network: allowed })
    const status = readFileSync(`/proc/${gateway()}/status`, 'utf8')
    const uid = Number(/^Uid:\s+(\d+)/m.exec(status)![1])
    expect(uid).toBeGreaterThan(65_536)
    expect(/^CapEff:\s+(\w+)/m.exec(status)![1]).toBe('0000000000000000')
    expect(/^CapPrm:\s+(\w+)/m.exec(status)![1]).toBe('0000000000000000')
    // Root owns the files of a process that cannot be dumped.
    expect(statSync(`/proc/${gateway()}/environ`).uid).toBe(0)
    await engine.destroy(id)
  })

  it('changes the policy of a running sandbox, and closes connections that it no longer allows', async () => {
    const id = await engine.create({ network: allowed })
    const slow = engine.run(id, 'curl -sSN --max-time 20 http://allowed.test/slow')
    await engine.run(id, 'sleep 1')
    await engine.setNetwork(id, { allow: ['other.test'] })
    expect((await slow).exitCode).not.toBe(28)
    expect((await slow).stdout).toContain('start')
    expect(await fetch(id, 'http://allowed.test/')).toMatch(failed)
    expect(await fetch(id, 'http://other.test/')).toContain('"host":"other.test"')
    await engine.setNetwork(id, 'none')
    expect(await fetch(id, 'http://other.test/')).toMatch(failed)
    await engine.setNetwork(id, allowed)
    expect(await fetch(id, 'http://allowed.test/')).toContain('"host":"allowed.test"')
    expect(await engine.networkOf(id)).toMatchObject({ allow: [{ host: 'allowed.test' }] })
    await expect(engine.setNetwork(id, 'open')).rejects.toMatchObject({ code: 'conflict' })
    await engine.destroy(id)
  }, 120_000)

  it('a sandbox without a policy gets one after a stop', async () => {
    const id = await engine.create({ network: 'none' })
    await expect(engine.setNetwork(id, allowed)).rejects.toMatchObject({
      code: 'conflict',
      hint: expect.stringContaining('Stop'),
    })
    await engine.stop(id)
    await engine.setNetwork(id, allowed)
    await engine.start(id)
    expect(await fetch(id, 'http://allowed.test/')).toContain('"host":"allowed.test"')
    await engine.destroy(id)
  }, 60_000)

  it('a service of the machine has a name', async () => {
    const network = { allow: [], services: { model: { host: '127.0.0.1', port: 7777 } } }
    const id = await engine.create({ network })
    const text = await fetch(id, '--http0.9 http://model.sandkasten.internal:7777/')
    expect(text).toContain('service')
    expect(await fetch(id, 'http://inside.test/')).toMatch(failed)
    await engine.destroy(id)
  }, 60_000)

  it('adds a secret outside of the sandbox, which trusts the gateway', async () => {
    await engine.setSecret('token', SECRET)
    const transform = [
      {
        match: { host: 'allowed.test', path: '/private' },
        headers: { authorization: { secret: 'token', prefix: 'Bearer ' } },
      },
    ]
    const id = await engine.create({ network: { ...allowed, transform } })
    // The upstream echoes the header; the gateway takes it out of the answer.
    const answer = JSON.parse(await fetch(id, 'https://allowed.test/private/x'))
    expect(answer).toMatchObject({ host: 'allowed.test', path: '/private/x' })
    expect(answer.authorization).toBeDefined()
    expect(JSON.stringify(answer)).not.toContain(SECRET)
    const open = JSON.parse(await fetch(id, 'https://allowed.test/public'))
    expect(open.authorization).toBeUndefined()
    await engine.setSecret('token', `${SECRET}-2`)
    expect(await fetch(id, 'https://allowed.test/private/y')).not.toContain(SECRET)
    // A value that cannot be used replaces the earlier one, too: the request is refused.
    await expect(engine.setSecret('token', 'short')).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(await fetch(id, '-w %{http_code} https://allowed.test/private/z')).toMatch(/secret.*502$/s)
    await engine.setSecret('token', SECRET)
    expect(await fetch(id, 'https://allowed.test/private/z')).toContain('/private/z')
    const everything =
      'env; cat /proc/*/environ /proc/*/cmdline; cat /etc/sandkasten/* /etc/resolv.conf; ls -laR /run'
    expect((await engine.run(id, `(${everything}) 2>/dev/null`)).stdout).not.toContain(SECRET)
    expect(foundOnHost(cage.root, SECRET)).toEqual([])
    expect(foundOnHost(path.join('/run/sandkasten', gatewayFolder(cage.root)), SECRET)).toEqual([])
    expect(execFileSync('ps', ['auxwwe'], { encoding: 'utf8' })).not.toContain(SECRET)
    const { mode } = statSync(path.join(cage.root, 'sandboxes', id, 'authority.json'))
    expect(mode & 0o777).toBe(0o600)
    const key = JSON.parse(readFileSync(path.join(cage.root, 'sandboxes', id, 'authority.json'), 'utf8')).key
    const line = key.split('\n')[1]
    expect((await engine.run(id, 'cat /etc/sandkasten/* /etc/ssl/certs/*.crt')).stdout).not.toContain(line)
    expect(foundOnHost(path.join(cage.root, 'sandboxes', id, 'disk'), line)).toEqual([])
    await engine.destroy(id)
  }, 120_000)

  it('programs of all kinds trust the authority', async () => {
    const network = {
      ...allowed,
      transform: [{ match: { host: 'allowed.test' }, headers: { 'x-test': '1' } }],
    }
    const id = await engine.create({ network })
    const url = 'https://allowed.test/trust'
    const npm = `npm view x --registry ${url} --loglevel http 2>&1 | grep -q 'fetch GET 200' && echo trust`
    const ways: Record<string, string> = {
      npm: `cd /tmp && ${npm}`,
      wget: `wget -qO- ${url}`,
      curl: `curl -sS ${url}`,
      git: `GIT_CURL_VERBOSE=1 git ls-remote ${url} 2>&1 | grep -qE 'HTTP/[0-9.]+ 200' && echo trust`,
      python3: `python3 -c 'import urllib.request as u; print(u.urlopen("${url}").read())'`,
      node: `node -e 'fetch("${url}").then(async (r) => console.log(await r.text()))'`,
    }
    const onCi = Boolean(process.env.CI) && process.env.CI !== 'false'
    for (const [program, script] of Object.entries(ways)) {
      const isHere = (await engine.run(id, `command -v ${program}`)).exitCode === 0
      if (!isHere && !onCi) continue
      expect(isHere, `${program} is not installed`).toBe(true)
      const { stdout, stderr } = await engine.run(id, script)
      expect(stdout, `${program}: ${stderr}`).toContain('trust')
    }
    await engine.destroy(id)
  }, 120_000)

  it('a killed gateway comes back with all sandboxes; nothing falls open meanwhile', async () => {
    const ids = await Promise.all([1, 2, 3].map(() => engine.create({ network: allowed })))
    const before = gateway()!
    const slow = engine.run(ids[0]!, 'curl -sSN --max-time 20 http://allowed.test/slow')
    await engine.run(ids[0]!, 'sleep 1')
    process.kill(before, 'SIGKILL')
    // Its connection ends; it is not carried on by anything else.
    expect((await slow).exitCode).not.toBe(28)
    for (const id of ids) {
      await expect
        .poll(() => fetch(id, 'http://allowed.test/'), { timeout: 20_000 })
        .toContain('"host":"allowed.test"')
      expect(await fetch(id, 'http://other.test/')).toMatch(failed)
    }
    expect(gateway()).not.toBe(before)
    for (const id of ids) await engine.destroy(id)
  }, 120_000)

  it('the gateway outlives its engine, and the next engine uses it', async () => {
    const first = await cage.engine()
    const id = await first.create({ network: allowed })
    const pid = gateway()
    await first.kill()
    const second = await cage.engine()
    expect(await fetch(id, 'http://allowed.test/', second)).toContain('"host":"allowed.test"')
    expect(gateway()).toBe(pid)
    await second.setNetwork(id, { allow: [] })
    expect(await fetch(id, 'http://allowed.test/', second)).toMatch(failed)
    await second.destroy(id)
    await second[Symbol.asyncDispose]()
  }, 120_000)

  it('an engine that finds no gateway starts one, for sandboxes of others too', async () => {
    const first = await cage.engine()
    const id = await first.create({ network: allowed })
    await first[Symbol.asyncDispose]()
    await engine[Symbol.asyncDispose]()
    process.kill(gateway()!, 'SIGKILL')
    engine = await cage.engine()
    expect(await fetch(id, 'http://allowed.test/')).toContain('"host":"allowed.test"')
    expect(await fetch(id, 'http://other.test/')).toMatch(failed)
    await engine.destroy(id)
  }, 120_000)

  it('two engines share one gateway, also when both start it at once', async () => {
    const pair = await Promise.all([cage.engine(), cage.engine()])
    const ids = await Promise.all(pair.map((each) => each.create({ network: allowed })))
    for (const [index, id] of ids.entries())
      expect(await fetch(id, 'http://allowed.test/', pair[index])).toContain('"host":"allowed.test"')
    process.kill(gateway()!, 'SIGKILL')
    for (const [index, id] of ids.entries())
      await expect
        .poll(() => fetch(id, 'http://allowed.test/', pair[index]), { timeout: 20_000 })
        .toContain('"host":"allowed.test"')
    // One changes the policy of the other's sandbox.
    await pair[0].setNetwork(ids[1]!, { allow: [] })
    expect(await fetch(ids[1]!, 'http://allowed.test/', pair[1])).toMatch(failed)
    for (const id of ids) await pair[0].destroy(id)
    for (const each of pair) await each[Symbol.asyncDispose]()
  }, 120_000)

  it('snapshots and forks take the policy along, and get an authority of their own', async () => {
    const id = await engine.create({ network: allowed })
    const snapshotId = await engine.snapshot(id)
    const restored = await engine.create({ snapshotId })
    const fork = await engine.fork(id)
    const other = await engine.create({ snapshotId, network: { allow: ['other.test'] } })
    for (const each of [restored, fork]) {
      expect(await fetch(each, 'http://allowed.test/')).toContain('"host":"allowed.test"')
      expect(await fetch(each, 'http://other.test/')).toMatch(failed)
    }
    expect(await fetch(other, 'http://other.test/')).toContain('"host":"other.test"')
    const authorities = await Promise.all(
      [id, restored, fork, other].map(
        async (each) => (await engine.run(each, 'cat /etc/sandkasten/ca.pem')).stdout,
      ),
    )
    expect(new Set(authorities).size).toBe(4)
    for (const each of [id, restored, fork, other]) await engine.destroy(each)
  }, 120_000)

  it('a restarted sandbox has its policy and its authority', async () => {
    const id = await engine.create({ network: allowed })
    const before = (await engine.run(id, 'cat /etc/sandkasten/ca.pem')).stdout
    await engine.stop(id)
    await engine.start(id)
    expect(await fetch(id, 'http://allowed.test/')).toContain('"host":"allowed.test"')
    expect((await engine.run(id, 'cat /etc/sandkasten/ca.pem')).stdout).toBe(before)
    await engine.destroy(id)
    expect(existsSync(path.join(cage.root, 'sandboxes', id))).toBe(false)
  }, 60_000)

  it('follows events as they come', async () => {
    const id = await engine.create({ network: allowed })
    const event = engine.follow(id, 'nowhere.test')
    await engine.run(id, 'sleep 0.3')
    expect(await fetch(id, 'http://nowhere.test/')).toMatch(failed)
    expect(await event).toMatchObject({ sandbox: id, host: 'nowhere.test', verdict: 'denied' })
    await engine.destroy(id)
  }, 60_000)
})

/** Files below a folder of this machine that contain the text. */
function foundOnHost(folder: string, text: string): string[] {
  try {
    return execFileSync('grep', ['-rlF', '--', text, folder], { encoding: 'utf8' }).trim().split('\n')
  } catch {
    return []
  }
}

function readOr(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
