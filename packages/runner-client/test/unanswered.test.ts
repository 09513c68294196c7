/** If the runner stops answering, callers that wait for a command must not wait beyond its timeout. */
import type { RunnerClient } from '@sandkasten/runner-client'
import { RunnerPrograms } from '@sandkasten/runner-client'
import { expect, it } from 'vitest'
import { fresh, startRunner } from './harness.ts'

const place = { cwd: '/', env: {} }

function programsOf(client: RunnerClient): RunnerPrograms {
  const oomKills = async () => undefined
  return new RunnerPrograms({ bound: false, client: async () => client, writers: new Map(), oomKills })
}

async function readAll(events: AsyncIterable<unknown>): Promise<void> {
  for await (const _event of events);
}

it.concurrent('a process: its reader gets an error 10 seconds after the timeout', async () => {
  await using runner = await startRunner()
  const client = await runner.connect()
  const spec = {
    cmd: 'sleep',
    args: ['1000'],
    cwd: '/',
    env: {},
    stdin: 'empty',
    reading: true,
    detached: false,
    outputBufferBytes: 65_536,
    timeoutMs: 500,
  } as const
  const process = await programsOf(client).spawn(client, spec, { ...place, execId: fresh() }, {})
  runner.process.kill('SIGSTOP')
  const started = performance.now()
  const reading = readAll(process.events(0))
  await expect(reading).rejects.toMatchObject({ code: 'timeout', message: expect.stringContaining('500 ms') })
  expect(performance.now() - started).toBeLessThan(15_000)
  runner.process.kill('SIGCONT')
})

it.concurrent('a shell command: its reader gets an error 10 seconds after the timeout', async () => {
  await using runner = await startRunner()
  const client = await runner.connect()
  const shell = await programsOf(client).openShell('shell', { ...place, login: false }, {})
  const running = shell.exec('sleep 1000', { timeoutMs: 2000 })
  // The shell has been reopened and the command queued.
  await expect.poll(async () => (await client.list()).length).toBe(1)
  runner.process.kill('SIGSTOP')
  const started = performance.now()
  await expect(running).rejects.toMatchObject({ code: 'timeout', hint: expect.stringContaining('destroy') })
  expect(performance.now() - started).toBeLessThan(30_000)
  runner.process.kill('SIGCONT')
})

it.concurrent('the time that a command waits in the queue does not count towards its timeout', async () => {
  await using runner = await startRunner()
  const client = await runner.connect()
  const shell = await programsOf(client).openShell('shell', { ...place, login: false }, {})
  const first = shell.exec('sleep 13', {})
  const second = shell.exec('echo done', { timeoutMs: 500 })
  expect((await second).output).toContain('done')
  expect((await first).exitCode).toBe(0)
})
