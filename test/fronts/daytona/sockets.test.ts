import { Daytona, type Sandbox } from '@daytona/sdk'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { startTestDaemon, type TestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { FaultProxy } from '../fault-proxy.ts'

const missing = await isolationMissing()

/** The WebSockets of Daytona's front: terminals, followed logs and client events, and how each of them ends. */
describe.skipIf(missing !== undefined)(`Daytona’s sockets${missing ? ` (${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let proxy: FaultProxy
  let daytona: Daytona
  let sandbox: Sandbox
  const front = () => daemon.daemon.fronts.daytona!

  beforeAll(async () => {
    daemon = await startTestDaemon({ isolator: 'oci', fronts: { daytona: { listen: '127.0.0.1:0' } } })
    proxy = await FaultProxy.start()
    proxy.target = front()
    daytona = new Daytona({ apiKey: daemon.key, apiUrl: `${proxy.url}/api`, target: 'local' })
    sandbox = await daytona.create()
  })
  afterEach(() => proxy?.rules())
  afterAll(async () => {
    await daytona?.[Symbol.asyncDispose]()
    await daemon?.stop()
    await proxy?.stop()
  })

  const newKey = async () => {
    const { body } = await daemon.call('POST', '/v1/keys', { name: 'test', scopes: ['read', 'exec'] })
    return { key: body.key as string, revoke: () => daemon.call('DELETE', `/v1/keys/${body.id}`) }
  }
  /** A WebSocket opened manually: its messages and its close code. */
  const open = async (path: string, key: string | undefined = daemon.key) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
    const socket = new WebSocket(`${front().replace('http', 'ws')}${path}`, { headers })
    const seen = { text: '', socket }
    const closed = new Promise<number>((resolve) => socket.once('close', resolve))
    socket.on('message', (data) => {
      seen.text += String(data)
    })
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
      socket.once('unexpected-response', (_, answer) => reject(new Error(String(answer.statusCode))))
    })
    return Object.assign(seen, { closed })
  }
  const terminalAt = (id: string) =>
    `/toolbox/${sandbox.id}/process/pty/create-connect?id=${id}&cols=80&rows=24`
  const eventsPath = '/api/socket.io/?EIO=4&transport=websocket'
  const enter = async (key: string) => {
    const events = await open(eventsPath, undefined)
    events.socket.send(`40${JSON.stringify({ token: key })}`)
    await expect.poll(() => events.text).toContain('40{')
    return events
  }
  const running = async (session: string, command: string) => {
    await sandbox.process.createSession(session)
    const { cmdId } = await sandbox.process.executeSessionCommand(session, { command, runAsync: true })
    return cmdId!
  }
  const logsAt = (session: string, id: string) =>
    `/toolbox/${sandbox.id}/process/session/${session}/command/${id}/logs?follow=true`

  it('a terminal with more output than is kept can be rejoined at the newest', async () => {
    const first = await open(terminalAt('loud'))
    first.socket.send(Buffer.from('stty -echo; yes 0123456789 | head -c 6000000; echo the-"end"\n'))
    await expect.poll(() => first.text.slice(-200), { timeout: 30_000 }).toContain('the-end')
    first.socket.terminate()
    await first.closed
    const again = await open(`/toolbox/${sandbox.id}/process/pty/loud/connect`)
    await expect.poll(() => again.text.slice(-200)).toContain('the-end')
    again.socket.send(Buffer.from('exit 3\n'))
    expect(await again.closed).toBe(1000)
    expect(again.text).toContain('"exitCode":3')
  })

  it('applies backpressure to a client that types faster than the terminal reads', async () => {
    const terminal = await open(terminalAt('slow'))
    const wait = 'until [ -e /tmp/go ]; do sleep 0.1; done'
    terminal.socket.send(Buffer.from(`stty raw -echo; echo rea"dy"; ${wait}; head -c 4000000 | wc -c\n`))
    await expect.poll(() => terminal.text).toContain('ready')
    for (let sent = 0; sent < 64; sent += 1) terminal.socket.send(Buffer.alloc(1_000_000, 'x'))
    // Long enough to transfer everything without backpressure; a part is in the kernel's buffers.
    for (let tenth = 0; tenth < 30 && terminal.socket.bufferedAmount > 0; tenth += 1)
      await new Promise((resolve) => setTimeout(resolve, 100))
    expect(terminal.socket.bufferedAmount).toBeGreaterThan(30_000_000)
    await sandbox.process.executeCommand('touch /tmp/go')
    await expect.poll(() => terminal.text, { timeout: 30_000 }).toContain('4000000')
    terminal.socket.terminate()
  })

  it('a revoked key closes its terminals, logs and events', async () => {
    const { key, revoke } = await newKey()
    const id = await running('watched', 'echo on; sleep 1000')
    const sockets = [
      await open(terminalAt('mine'), key),
      await open(logsAt('watched', id), key),
      await enter(key),
    ]
    const others = [await open(`/toolbox/${sandbox.id}/process/pty/mine/connect`), await enter(daemon.key)]
    await revoke()
    expect(await Promise.all(sockets.map(({ closed }) => closed))).toEqual([1008, 1008, 1008])
    expect(others.map(({ socket }) => socket.readyState)).toEqual([WebSocket.OPEN, WebSocket.OPEN])
    await expect(open(terminalAt('mine'), key)).rejects.toThrow('401')
    for (const { socket } of others) socket.terminate()
    await sandbox.process.deleteSession('watched')
  })

  it('the API’s own terminals and streams end with their key, too', async () => {
    const { key, revoke } = await newKey()
    const terminal = await daemon.call('POST', `/v1/sessions/${sandbox.id}/terminals`, {})
    const at = `/v1/sessions/${sandbox.id}/terminals/${terminal.body.terminal_id ?? terminal.body.id}/ws`
    const socket = new WebSocket(`${daemon.daemon.url.replace('http', 'ws')}${at}`, {
      headers: { authorization: `Bearer ${key}` },
    })
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
    const closed = new Promise<number>((resolve) => socket.once('close', resolve))
    const events = await daemon.fetch('/v1/events?follow=true', {
      key,
      headers: { accept: 'text/event-stream' },
    })
    await revoke()
    expect(await closed).toBe(1008)
    await events.text()
  })

  it('limits unauthenticated connections', async () => {
    const strangers = await Promise.all(Array.from({ length: 100 }, () => open(eventsPath, undefined)))
    await expect(open(eventsPath, undefined)).rejects.toThrow('429')
    for (const { socket } of strangers) socket.terminate()
    await expect
      .poll(() =>
        enter(daemon.key).then(
          ({ socket }) => socket.terminate(),
          () => 'full',
        ),
      )
      .not.toBe('full')
  })

  it('rejects an invalid address without an internal error', async () => {
    for (const path of [
      '/toolbox/%ff/process/pty/x/connect',
      `/toolbox/${sandbox.id}/process/pty/%ff/connect`,
      `/toolbox/${sandbox.id}/process/session/%ff/command/%zz/logs`,
      '//',
    ])
      await expect(open(path), path).rejects.toThrow(/40[04]/)
  })

  it('logs and terminals are complete after a broken connection', async () => {
    const id = await running('cut', 'for i in $(seq 1 3000); do echo line $i; done; exit 4')
    const whole = Array.from({ length: 3000 }, (_, at) => `line ${at + 1}\n`).join('')
    const follow = async () => {
      let text = ''
      const onText = (more: string) => {
        text += more
      }
      await sandbox.process.getSessionCommandLogs('cut', id, onText, () => {}).catch(() => {})
      return text
    }
    const logs = /^UPGRADE .*\/logs$/
    proxy.rules({ on: logs, fault: { kind: 'cut-at', bytes: 5000 } })
    const part = await follow()
    expect(whole.startsWith(part) && part.length < 5000, part.slice(0, 100)).toBe(true)
    proxy.rules({ on: logs, fault: { kind: 'cut-before' } })
    expect(await follow()).toBe('')
    expect(await follow()).toBe(whole)
    expect(await sandbox.process.getSessionCommand('cut', id)).toMatchObject({ exitCode: 4 })

    let seen = ''
    const onData = (bytes: Uint8Array) => {
      seen += new TextDecoder().decode(bytes)
    }
    proxy.rules({ on: /^UPGRADE .*\/create-connect$/, fault: { kind: 'cut-at', bytes: 2000 } })
    const terminal = await sandbox.process.createPty({ id: 'cut', onData })
    await terminal.sendInput('seq 1 2000; echo la"st"\n')
    await terminal.wait()
    expect(seen).not.toContain('last')
    seen = ''
    const again = await sandbox.process.connectPty('cut', { onData })
    await expect.poll(() => seen).toContain('last')
    await again.sendInput('exit 7\n')
    expect(await again.wait()).toMatchObject({ exitCode: 7 })
  })

  it('silent terminals and logs can be left, and their programs keep running', async () => {
    const id = await running('silent', 'echo one; read line; echo "$line"')
    proxy.rules({ on: /^UPGRADE/, fault: { kind: 'stall-at', bytes: 4 }, times: 1 })
    const stalled = new WebSocket(`${proxy.url.replace('http', 'ws')}${logsAt('silent', id)}`, {
      headers: { authorization: `Bearer ${daemon.key}` },
    })
    await new Promise((resolve, reject) => stalled.once('open', resolve).once('error', reject))
    stalled.terminate()
    await sandbox.process.sendSessionCommandInput('silent', id, 'two\n')
    let text = ''
    const onText = (more: string) => {
      text += more
    }
    await sandbox.process.getSessionCommandLogs('silent', id, onText, () => {})
    expect(text).toBe('one\ntwo\n')
    await sandbox.process.deleteSession('silent')
  })

  it('the end of a sandbox or of the daemon closes open sockets with a code', async () => {
    const other = await daytona.create()
    const at = (path: string) => path.replace(sandbox.id, other.id)
    const terminal = await open(at(terminalAt('ending')))
    await other.process.createSession('ending')
    const { cmdId } = await other.process.executeSessionCommand('ending', {
      command: 'sleep 1000',
      runAsync: true,
    })
    const logs = await open(at(logsAt('ending', cmdId!)))
    await other.stop()
    expect(await terminal.closed).toBeGreaterThan(1000)
    expect(await logs.closed).toBeGreaterThan(1000)
    await other.delete()

    const id = await running('last', 'sleep 1000')
    const open3 = [await open(terminalAt('last')), await open(logsAt('last', id)), await enter(daemon.key)]
    await daemon.restart()
    expect(await Promise.all(open3.map(({ closed }) => closed))).toEqual([1001, 1001, 1001])
    proxy.target = front()
    expect((await sandbox.process.getSession('last')).commands).toHaveLength(1)
  })
})
