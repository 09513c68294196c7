import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { SandboxError } from '../errors.ts'
import { OutputLog } from '../shared/output/output-log.ts'
import type { ProcessDriver, SandboxDriver } from './driver.ts'
import { SandboxProcess } from './process.ts'
import { DriverSandbox } from './sandbox.ts'

/** A driver of a remote process: it learns of the end only through a call. */
class RemoteProcess implements ProcessDriver {
  readonly execId = 'remote'
  readonly log = new OutputLog({ capacityBytes: 1000 })
  readonly kills: string[] = []

  events(after: number, signal?: AbortSignal) {
    return this.log.read(after, signal)
  }

  async kill(signal: string): Promise<boolean> {
    this.kills.push(signal)
    const running = this.log.exit === undefined
    this.end(137)
    return running
  }

  async status() {
    return this.log.exit ? { running: false, exit: this.log.exit } : { running: true }
  }

  async waitForExit() {
    await this.log.ended
    return this.log.exit!
  }

  end(exitCode = 0): void {
    this.log.end({ exitCode, timedOut: false, durationMs: 1 })
  }
}

function sandboxOf(spawn: SandboxDriver['spawn']): DriverSandbox {
  const driver = { sandboxId: 'one', workdir: '/', files: {}, spawn } as unknown as SandboxDriver
  return new DriverSandbox(driver, { provider: 'remote', capabilities: {} })
}

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

describe('A signal of spawn, with a remote provider', () => {
  it.each<[string, (process: SandboxProcess) => Promise<unknown>]>([
    ['wait()', (process) => process.wait()],
    ['wait({ collect: false })', (process) => process.wait({ collect: false })],
    [
      'output()',
      async (process) => {
        for await (const _ of process.output());
      },
    ],
    ['stderr()', async (process) => new Response(process.stderr()).text()],
    ['status()', (process) => process.status()],
    ['kill()', (process) => process.kill()],
  ])('has no listener left after %s has seen the end', async (_, look) => {
    const remote = new RemoteProcess()
    const { signal } = new AbortController()
    const process = await sandboxOf(async () => remote).spawn({ cmd: 'x', signal })
    expect(listeners(signal)).toBe(1)
    remote.end()
    await look(process as SandboxProcess)
    expect(listeners(signal)).toBe(0)
  })

  it('has no listener left when a listener of the output was told of the end', async () => {
    const remote = new RemoteProcess()
    const { signal } = new AbortController()
    let heard = ''
    await sandboxOf(async () => remote).spawn({ cmd: 'x', signal, onStdout: (text) => (heard += text) })
    remote.log.push('stdout', new TextEncoder().encode('last words'))
    remote.end()
    await expect.poll(() => listeners(signal)).toBe(0)
    expect(heard).toBe('last words')
  })

  it('kills the process once', async () => {
    const remote = new RemoteProcess()
    const controller = new AbortController()
    const process = await sandboxOf(async () => remote).spawn({ cmd: 'x', signal: controller.signal })
    controller.abort()
    expect((await process.wait()).exitCode).toBe(137)
    expect(remote.kills).toEqual(['SIGKILL'])
  })

  it('kills a program whose start was confirmed after the signal had fired', async () => {
    const remote = new RemoteProcess()
    const controller = new AbortController()
    const sandbox = sandboxOf(async () => {
      controller.abort()
      return remote
    })
    const spawning = sandbox.spawn({ cmd: 'x', signal: controller.signal })
    await expect(spawning).rejects.toMatchObject({ code: 'aborted' })
    expect(remote.kills).toEqual(['SIGKILL'])
  })
})

describe('A stream of a process whose connection is lost', () => {
  it('reports it, and leaves no listener on its signal', async () => {
    const remote = new RemoteProcess()
    const lost = new SandboxError('connection_lost', 'The connection was lost.')
    const process = new SandboxProcess(
      Object.assign(remote, {
        async *events() {
          yield { seq: 1, type: 'stdout' as const, data: new Uint8Array(3) }
          throw lost
        },
      }),
      { provider: 'remote', capabilities: {} },
    )
    const { signal } = new AbortController()
    const reader = process.stdout({ signal }).getReader()
    expect((await reader.read()).value).toHaveLength(3)
    await expect(reader.read()).rejects.toBe(lost)
    expect(listeners(signal)).toBe(0)
  })

  it('reports output that ends without an exit', async () => {
    const process = new SandboxProcess(Object.assign(new RemoteProcess(), { async *events() {} }), {
      provider: 'remote',
      capabilities: {},
    })
    await expect(new Response(process.stdout()).text()).rejects.toMatchObject({ code: 'connection_lost' })
  })
})
