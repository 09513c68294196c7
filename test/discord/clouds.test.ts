import { networkInterfaces } from 'node:os'
import path from 'node:path'
import type { TwinChannel } from '@sandkasten/discord/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kindsAt } from '../../packages/cli/src/sandbox/open.ts'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import {
  type ModelServer,
  modelConfig,
  startModelServer,
  steps,
} from '../../packages/opencode/src/testing/model-server.ts'
import { settingsOnDaemon } from '../sandboxes/rows.ts'
import { everythingShown, filesWith, placesInSandbox } from './secrets.ts'
import { openStage, patience, type Stage, temporaryFolder } from './stage.ts'

const outward = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === 'IPv4' && !one.internal)?.address
const missing =
  (await isolationMissing()) ?? (outward === undefined ? 'needs an address that is not loopback' : undefined)

/** Where the agent works follows from what the provider can do, unless the channel has a setting. */
const rows = [
  { provider: 'daytona', mode: 'inside' },
  { provider: 'e2b', mode: 'inside' },
  { provider: 'vercel', setting: 'home', mode: 'home' },
] as const

/** The tools that change a file, inside and at home. */
const work = {
  inside: steps(
    { tool: 'bash', args: { command: 'echo before > file.txt; pwd', description: 'x' } },
    { tool: 'edit', args: { filePath: 'file.txt', oldString: 'before', newString: 'after' } },
    { text: 'It says **after** now.' },
  ),
  home: steps(
    { tool: 'sandbox_run_command', args: { cmd: 'echo before > file.txt; pwd' } },
    { tool: 'sandbox_write_file', args: { path: 'file.txt', content: 'after\n' } },
    { text: 'It says **after** now.' },
  ),
}

/** What the thread shows of them. */
const tools = {
  inside: ['  -# ▪ bash echo before \\> file.txt; pwd', '  -# ▪ edit file.txt'],
  home: [
    '  -# ▪ sandbox\\_run\\_command echo before \\> file.txt; pwd',
    '  -# ▪ sandbox\\_write\\_file file.txt',
  ],
}
const starts = {
  inside: [
    '  -# • Looks into the sandbox.',
    '  -# • Copies opencode (185 MB) into the sandbox.',
    '  -# • Starts opencode on 127.0.0.1:7777 of the sandbox.',
    '  -# • Waits until opencode answers.',
    '  -# • opencode 1.18.33 is ready.',
  ],
  home: [],
}

/** The same bot, with the vendors’ own SDKs on fronts of one daemon. */
describe.skipIf(missing)('threads at the clouds', { timeout: 240_000 }, () => {
  let model: ModelServer
  let daemon: TestDaemon
  let stage: Stage
  let dataDir: string
  const stack = new AsyncDisposableStack()
  beforeAll(async () => {
    model = stack.use(await startModelServer(undefined, outward))
    const listen = { listen: '127.0.0.1:0' }
    daemon = await startTestDaemon({
      isolator: 'oci',
      preview_listen: '127.0.0.1:0',
      fronts: Object.fromEntries(rows.map(({ provider }) => [provider, listen])),
      allowed_networks: ['none', 'policy'],
      egress: { addresses: [outward] },
      defaults: { memory_mb: 1536, cpu_limit: 2, pids_limit: 1024 },
    })
    stack.defer(() => daemon.stop())
    dataDir = stack.use(await temporaryFolder()).path
    stage = await openStage({
      dataDir,
      kinds: kindsAt({ folder: path.join(dataDir, 'engine') }),
      agents: { config: modelConfig(model.url) },
      sandboxDefaults: { network: { allow: [outward!] } },
    })
    stack.use(stage)
  }, 120_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  describe.each(rows)('$provider', ({ provider, mode, ...row }) => {
    it('1, 2 and 5: a new sandbox, a second thread, and its end', async () => {
      const shown = async (thread: TwinChannel, count: number) =>
        (await stage.answered(thread, count)).replaceAll(/SANDBOX-\d/g, 'SANDBOX')
      const head = (word: string) => ['# A title', `sandkasten: **${word} at ${provider}**`]
      const footer = `  -# ✓ SANDBOX · ${provider} · running · local/m1 · COST · TIME`
      const said = (words: string) => [`  You said: ${words}`, footer]
      const started = [`sandkasten: -# • starting “SANDBOX” at ${provider}`, ...starts[mode].toSpliced(1, 1)]
      const begun = [
        ...head('work'),
        `  -# • Maria · ${provider}`,
        `sandkasten: -# • creating “SANDBOX” at ${provider}`,
        ...starts[mode],
        ...tools[mode],
        '  It says **after** now.',
        footer,
      ]
      const settings = settingsOnDaemon[provider]!(daemon)
      await stage.maria.runSlashCommand('sandbox-setup', { provider })
      const set = await stage.maria.submitModal(settings)
      expect((await set.waitForReply(patience)).content).toContain('is set up')
      if ('setting' in row) {
        const place = { guildId: stage.channel.guildId, channelId: stage.channel.id }
        await stage.bot.threads.saveSettings(
          place,
          { mode: row.setting, allowed: {} },
          { id: 'u', name: 'Maria' },
        )
      }

      model.script = work[mode]
      await stage.maria.runSlashCommand('sandbox', { provider, prompt: `work at ${provider}` })
      const first = await stage.channel.waitForThread(`work at ${provider}`)
      expect(await shown(first, 1)).toBe(begun.join('\n'))
      expect(await stage.bot.threads.get(first.id)).toMatchObject({ mode })
      const { name } = (await stage.sandboxes.list()).find((one) => one.provider === provider)!
      expect(await stage.run(first, 'shell', { command: 'cat file.txt' })).toContain('after')

      expect(await stage.run(first, 'sandbox-stop')).toContain('is stopped')
      model.script = ({ prompt }) => ({ text: `You said: ${prompt}` })
      await stage.maria.runSlashCommand('sandbox', { sandbox: name, prompt: `again at ${provider}` })
      const second = await stage.channel.waitForThread(`again at ${provider}`)
      expect(await shown(second, 1)).toBe(
        [...head('again'), '  -# • Maria · SANDBOX', ...started, ...said(`again at ${provider}`)].join('\n'),
      )
      expect(JSON.stringify(model.requests.at(-1)!.messages)).not.toContain(`work at ${provider}`)

      // The stopped sandbox starts again when its first thread speaks, and the session goes on.
      await stage.run(second, 'sandbox-stop')
      await stage.maria.in(first).say('go on')
      const stopped = ['sandkasten: -# • SANDBOX is stopped.', 'Maria: go on']
      const gone =
        '  -# ▲ “SANDBOX” was started again: its processes are gone, and its files are still there.'.trim()
      const shell = ['sandkasten: -# • cat file.txt · exit code 0', '  ```', '  after', '  ```']
      const whole = [...begun, ...shell, ...stopped, ...started, ...said('go on'), `sandkasten: ${gone}`]
      await first.waitForMessage('was started again', patience)
      expect(await shown(first, 2)).toBe(whole.join('\n'))
      expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain(`work at ${provider}`)
      expect(await stage.run(stage.channel, 'sandbox-list')).toMatch(
        new RegExp(`SANDBOX-\\d +${provider} +running +now +2`),
      )

      const { handle } = await stage.sandboxes.resume(name)
      for (const secret of [stage.twin.token, daemon.key])
        expect(await placesInSandbox(handle, secret)).toEqual([])
      const used = await stage.maria.runSlashCommand('sandbox-destroy', { sandbox: name })
      const asked = await used.waitForReply(patience)
      await stage.maria.clickButton(asked, 'Destroy')
      await asked.waitUntil(/is destroyed. 2 threads are archived/, patience)
      expect([first.isArchived, second.isArchived]).toEqual([true, true])
      expect((await stage.sandboxes.list()).map((one) => one.name)).not.toContain(name)
    })
  })

  it('keys of providers are in no message, no log and no file', () => {
    for (const secret of [stage.twin.token, daemon.key]) {
      expect(everythingShown(stage.twin)).not.toContain(secret)
      expect(stage.log.join('\n')).not.toContain(secret)
      expect(filesWith(secret, dataDir)).toEqual([])
    }
    expect(filesWith('work at vercel', dataDir)).not.toEqual([])
  })
})
