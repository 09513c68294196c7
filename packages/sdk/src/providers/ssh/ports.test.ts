import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxHandle } from '../../index.ts'
import type { SshCapabilities } from './index.ts'
import { sshdProgram, startSshd, type TestSshd } from './test-helper.ts'

/** Starts a web server in the sandbox, on a port that the system chooses. */
async function serve(sandbox: SandboxHandle<SshCapabilities>, address: string): Promise<number> {
  const family = address.includes(':') ? 'AF_INET6' : 'AF_INET'
  const script = `import http.server,socket
class S(http.server.ThreadingHTTPServer): address_family=socket.${family}
s=S(('${address}',0),http.server.SimpleHTTPRequestHandler)
print(s.server_address[1],flush=True)
s.serve_forever()`
  await sandbox.files.writeFile('hello.txt', 'from the host')
  const server = await sandbox.spawn({ cmd: 'python3', args: ['-c', script], detached: true })
  const first = await server.output()[Symbol.asyncIterator]().next()
  return Number(Buffer.from((first.value as { data: Uint8Array }).data).toString())
}

const read = async (url: string) => (await fetch(`${url}/hello.txt`)).text()

describe.skipIf(!sshdProgram)('a forwarded port', () => {
  let sshd: TestSshd
  beforeAll(async () => {
    sshd = await startSshd()
  })
  afterAll(() => sshd[Symbol.asyncDispose]())

  it('reaches a program that listens only on ::1', async () => {
    const sandbox = await sshd.provider().create()
    expect(await read(await sandbox.getUrl(await serve(sandbox, '::1')))).toBe('from the host')
    await sandbox.destroy()
  })

  it('keeps its address after the connection was lost', async () => {
    const sandbox = await sshd.provider().create()
    const url = await sandbox.getUrl(await serve(sandbox, '127.0.0.1'))
    expect(await read(url)).toBe('from the host')
    expect(sshd.cut()).toBeGreaterThan(0)
    // The first call may still use the old connection.
    await expect.poll(() => read(url).catch(() => '')).toBe('from the host')
    await sandbox.destroy()
  })

  it('closes when another client stops the sandbox, because another program may listen there now', async () => {
    const [one, two] = [sshd.provider(), sshd.provider()]
    const [sandbox, other] = [await one.create(), await one.create()]
    const port = await serve(sandbox, '127.0.0.1')
    const url = await sandbox.getUrl(port)
    expect(await read(url)).toBe('from the host')
    await (await two.get(sandbox.id)).stop()
    const script = `import http.server\nhttp.server.HTTPServer(('127.0.0.1',${port}),http.server.SimpleHTTPRequestHandler).serve_forever()`
    await other.spawn({ cmd: 'python3', args: ['-c', script], detached: true })
    const theirs = await other.getUrl(port)
    await expect
      .poll(() =>
        fetch(theirs).then(
          (answer) => answer.status,
          () => 0,
        ),
      )
      .toBe(200)
    await expect(fetch(url)).rejects.toThrow()
    await expect(fetch(url)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
    for (const each of [sandbox, other]) await each.destroy()
  })

  it('closes when a status request finds the sandbox stopped', async () => {
    const [one, two] = [sshd.provider(), sshd.provider()]
    const sandbox = await one.create()
    const url = await sandbox.getUrl(await serve(sandbox, '127.0.0.1'))
    await (await two.get(sandbox.id)).stop()
    expect((await sandbox.info()).status).toBe('stopped')
    await expect.poll(() => fetch(url).then(String, (error) => error.cause?.code)).toBe('ECONNREFUSED')
    await sandbox.destroy()
  })

  it('reports the sshd_config setting that forbids it', async () => {
    const config = ['Subsystem sftp internal-sftp', 'AllowTcpForwarding no']
    await using closed = await startSshd({ config })
    const sandbox = await closed.provider().create()
    await expect(sandbox.getUrl(8080)).rejects.toMatchObject({
      code: 'unsupported',
      hint: expect.stringContaining('AllowTcpForwarding'),
    })
    expect((await sandbox.runCommand({ cmd: 'echo', args: ['works'] })).stdout).toBe('works\n')
    await sandbox.destroy()
  })

  it('works if PermitOpen allows this port only', async () => {
    await using some = await startSshd({ config: ['Subsystem sftp internal-sftp', 'PermitOpen 127.0.0.1:7'] })
    const sandbox = await some.provider().create()
    expect(await sandbox.getUrl(7)).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    await expect(sandbox.getUrl(8080)).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringContaining('8080'),
    })
    await sandbox.destroy()
  })
})
