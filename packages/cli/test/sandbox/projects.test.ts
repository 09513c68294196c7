import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Place, temporaryPlace } from './place.ts'

const token = 'ghp-token-0123456789'

describe('create with a project', () => {
  let place: Place
  let server: Server
  const url = (name: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${name}/repo.git`
  beforeAll(async () => {
    place = await temporaryPlace({ GIT_CONFIG_NOSYSTEM: '1' })
    const work = path.join(place.home, 'work')
    mkdirSync(work)
    writeFileSync(path.join(work, 'file'), 'from the repository')
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: work })
    git('init', '-q')
    git('add', '.')
    git('commit', '-qm', 'one')
    git('clone', '-q', '--bare', '.', path.join(place.home, 'repo.git'))
    execFileSync('git', ['update-server-info'], { cwd: path.join(place.home, 'repo.git') })
    // Serves the repository as files; below /private/ only with the token.
    server = createServer(({ url = '', headers }, response) => {
      const [, kind, ...rest] = url.split('?')[0]!.split('/')
      const given = Buffer.from(headers.authorization?.split(' ')[1] ?? '', 'base64').toString()
      if (kind === 'private' && !given.endsWith(`:${token}`))
        return response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      try {
        response.end(readFileSync(path.join(place.home, ...rest)))
      } catch {
        response.writeHead(404).end()
      }
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
  })
  afterAll(async () => {
    await place?.close()
    server?.close()
  })

  it('clones a repository, shows each step, and begins there', async () => {
    const ran = await place.run(['create', 'cloned', '--provider', 'local', '--repo', url('public')])
    expect(ran).toMatchObject({ code: 0, stdout: 'cloned\n' })
    expect(ran.stderr).toMatch(/^sandkasten: creating “cloned” at local\nsandkasten: cloning .*\n$/)
    expect(await place.ok(['exec', 'cloned', '--', 'cat', 'file'])).toBe('from the repository')
    expect(await place.json(['show', 'cloned'])).toMatchObject({ repoUrl: url('public') })
  })

  it('clones a private repository with a token that is kept nowhere', async () => {
    const create = ['create', 'private', '--provider', 'local', '--repo', url('private')]
    const refused = await place.run(create)
    expect(refused.code).toBe(125)
    const env = { REPO_TOKEN: token }
    const unset = await place.run([...create, '--git-token-env', 'NO_SUCH'], { env })
    expect(unset).toMatchObject({ code: 125, stderr: expect.stringContaining('is not set') })
    // The token itself in the place of its name is not repeated.
    const pasted = await place.run([...create, '--git-token-env', token])
    expect(pasted.code).toBe(125)
    expect(pasted.stderr).not.toContain(token)
    expect(await place.run([...create, '--git-token-env', 'REPO_TOKEN'], { env })).toMatchObject({ code: 0 })
    expect(await place.ok(['exec', 'private', '--', 'cat', 'file'])).toBe('from the repository')
    const kept = readdirSync(place.home, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .filter((file) => readFileSync(file, 'latin1').includes(token))
    expect(kept).toEqual([])
  })

  it('leaves a failed sandbox with the reason, whose name can be used again', async () => {
    const failed = await place.run(['create', 'broken', '--provider', 'local', '--repo', url('none/x')])
    expect(failed).toMatchObject({ code: 125, stderr: expect.stringMatching(/\nsandkasten: .*\n {2}\S/) })
    expect(await place.json(['show', 'broken'])).toMatchObject({
      status: 'failed',
      errorMessage: expect.any(String),
    })
    expect(await place.ok(['list'])).toMatch(/^broken +local +failed /m)
    expect(await place.ok(['prune', '--yes', '--provider', 'local'])).toContain(
      'broken removed: it had failed',
    )
    expect(await place.ok(['create', 'broken', '--provider', 'local'])).toBe('broken')
  })

  it('refuses two projects', async () => {
    expect(await place.run(['create', '--repo', 'x', '--upload', '--yes'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('cannot be combined'),
    })
    expect(await place.run(['create', 'one', '--name', 'two', '--yes'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('Two names'),
    })
  })
})
