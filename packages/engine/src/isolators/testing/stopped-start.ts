import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Cage, Captive } from './cage.ts'

/** Sends SIGSTOP to every later process between its change to the sandbox's user and its exec. */
const STOPPER = `$| = 1; print "ready\\n"; while (1) { kill 'STOP', $_ for $$ + 1 .. $$ + 500 }`

/** A long PATH, so that the lookup of the program takes long. */
const PATH = [...Array.from({ length: 3000 }, (_, index) => `/nowhere/${index}`), '/usr/bin', '/bin'].join(
  ':',
)

/** Code in a sandbox stops programs while the runner starts them. The runner must not block, and timeouts must hold. */
export function stoppedStarts(open: () => Promise<Cage>, reason: string | undefined): void {
  let cage: Cage
  let box: Captive

  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
  beforeAll(async () => {
    if (reason === undefined) cage = await open()
  }, 600_000)
  afterAll(async () => cage?.[Symbol.asyncDispose](), 120_000)

  async function underAttack(work: () => Promise<void>): Promise<void> {
    const attacker = await box.client.start({ id: 'stopper', argv: ['/usr/bin/perl', '-e', STOPPER] })
    await attacker.next()
    try {
      await work()
    } finally {
      await box.client.signal('stopper', 'KILL')
      await attacker.exit
    }
  }

  describe('a program that is stopped during its start', () => {
    it('blocks nothing else and ends at its timeout', async () => {
      box = await cage.start({ limits: { pids: 512 } })
      await underAttack(async () => {
        for (let tries = 0; tries < 40; tries++) {
          const limits = { timeoutMs: 300, graceMs: 100 }
          const command = box.client.run({ id: `stopped-${tries}`, argv: ['true'], env: { PATH }, ...limits })
          const caught = cage.traits.ownKernel ? true : await isCaught(box.runnerPid)
          // The runner answers other requests meanwhile.
          expect(await Promise.race([box.client.list(), sleep(5000)])).toBeDefined()
          const ended = await Promise.race([command, sleep(10_000)])
          expect(ended).toBeDefined()
          if (caught && ended!.timedOut) return
        }
        expect.unreachable('no program was stopped during its start')
      })
      expect((await box.sh('echo fine')).out).toBe('fine')
      await box.sandbox.kill()
    })

    it('a FIFO in place of a file that the runner reads does not block it', async (ctx) => {
      ctx.skip(cage.traits.ids === 'account', 'the sandbox has no root that could create the FIFO')
      box = await cage.start()
      const swap =
        'rm -f /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group; mkdir -p /sys/fs/cgroup; mkfifo /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current'
      await box.sh(swap, { user: '0' })
      const named = box.client
        .run({ id: 'named', argv: ['true'], user: 'nobody' })
        .catch((error) => error.code)
      expect(await Promise.race([named, sleep(5000)])).toBe('not_found')
      expect(await Promise.race([box.client.stats(), sleep(5000)])).toBeDefined()
      expect((await box.sh('echo fine')).out).toBe('fine')
      await box.sandbox.kill()
    })

    it('does not block the syntax check of a shell command', async () => {
      box = await cage.start({ limits: { pids: 512 } })
      const shell = await box.client.openShell({ id: 'shell' })
      await shell.exec('true', { id: 'first' })
      await underAttack(async () => {
        for (let tries = 0; tries < 20; tries++) {
          const command = shell.exec('read x <<X\nhello\nX', { id: `checked-${tries}`, timeoutMs: 300 })
          const ended = await Promise.race([command, sleep(10_000)])
          expect(ended).toBeDefined()
          if (ended!.timedOut) return
        }
        expect.unreachable('no check was stopped')
      })
      expect((await shell.exec('echo fine', { id: 'last' })).output.toString()).toContain('fine')
      await box.sandbox.kill()
    })
  })
}

/** Whether a child of the runner is stopped before its exec. */
async function isCaught(runner: number): Promise<boolean> {
  for (let tries = 0; tries < 20; tries++) {
    const children = readOr(`/proc/${runner}/task/${runner}/children`).split(' ').filter(Boolean)
    for (const child of children) {
      const stopped = /^State:\s+T/m.test(readOr(`/proc/${child}/status`))
      if (stopped && readOr(`/proc/${child}/cmdline`) === readOr(`/proc/${runner}/cmdline`)) return true
    }
    await sleep(5)
  }
  return false
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
