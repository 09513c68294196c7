import type { ChildProcess } from 'node:child_process'
import path from 'node:path'
import { startTwin, type Twin, type TwinChannel, type TwinUser } from '@sandkasten/discord/testing'
import { openRegistry, type ScopedRegistry } from '@sandkasten/registry'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { kindsAt } from '../../packages/cli/src/sandbox/open.ts'
import { sandkasten, start } from '../../packages/cli/test/helper.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import {
  type ModelServer,
  startModelServer,
  steps,
} from '../../packages/opencode/src/testing/model-server.ts'
import { everythingShown, filesWith, placesInSandbox } from './secrets.ts'
import { ended, manager, patience, run, steady, temporaryFolder } from './stage.ts'

const missing = await isolationMissing()
const modelKey = 'sk-model-key-of-the-operator-77c1'

/** The five flows with `sandkasten discord` and `sandkasten send` as users run them. The tests build on each other. */
describe.skipIf(missing)('sandkasten discord', { timeout: 240_000 }, () => {
  let model: ModelServer
  let twin: Twin
  let channel: TwinChannel
  let maria: TwinUser
  let dataDir: string
  let sandboxes: ScopedRegistry
  let env: Record<string, string>
  let log = ''
  let thread: TwinChannel
  let bot: ChildProcess
  let startBot: (...options: string[]) => Promise<void>
  const stack = new AsyncDisposableStack()
  beforeAll(async () => {
    model = stack.use(await startModelServer())
    twin = stack.use(await startTwin())
    channel = twin.guild('Workshop').channel('general')
    maria = manager(channel)
    const home = stack.use(await temporaryFolder()).path
    dataDir = path.join(home, 'data')
    const place = { SANDKASTEN_HOME: dataDir, SANDKASTEN_DISCORD_API: twin.api }
    startBot = async (...options) => {
      const about = ['--model', 'local/m1', '--model-url', model.url, '--credential', 'LOCAL_API_KEY']
      const before = log.length
      bot = start(['discord', ...about, ...options], {
        ...{ ...place, HOME: home, DISCORD_BOT_TOKEN: twin.token, LOCAL_API_KEY: modelKey },
      })
      for (const stream of [bot.stdout!, bot.stderr!])
        stream.setEncoding('utf8').on('data', (text: string) => {
          log += text
        })
      await vi.waitUntil(() => log.includes('ready as sandkasten', before), { timeout: 60_000 })
    }
    const kinds = kindsAt({ folder: path.join(dataDir, 'engine') })
    stack.defer(() => stopped(bot))
    await startBot()
    const registry = stack.use(await openRegistry({ dataDir, kinds, defaultProvider: 'engine', env: {} }))
    sandboxes = registry.in({ appId: twin.mainBot.id, guildId: channel.guildId })
    stack.defer(async () => {
      await stopped(bot)
      for (const { name } of await sandboxes.list()) await sandboxes.destroy(name, { force: true })
    })
    // Another machine: the token is all that it has.
    env = {
      SANDKASTEN_HOME: path.join(home, 'ci'),
      SANDKASTEN_DISCORD_API: twin.api,
      DISCORD_BOT_TOKEN: twin.token,
    }
  }, 120_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  const names: string[] = []
  async function shown(text: string): Promise<string> {
    for (const { name } of await sandboxes.list()) if (!names.includes(name)) names.push(name)
    return steady(names.reduce((rest, name, at) => rest.replaceAll(name, `SANDBOX-${at + 1}`), text))
  }
  async function answered(where: TwinChannel, count: number): Promise<string> {
    await ended(where, count)
    return shown(where.transcript())
  }

  it('1: a thread on a new sandbox', async () => {
    model.script = steps(
      { tool: 'sandbox_run_command', args: { cmd: 'git init -q . && echo before > file.txt' } },
      { tool: 'sandbox_write_file', args: { path: 'file.txt', content: 'after\n' } },
      { text: 'It says **after** now.' },
    )
    await maria.runSlashCommand('sandbox', { prompt: 'change the file' })
    thread = await channel.waitForThread('change the file')
    expect(await answered(thread, 1)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: **change the file**
        -# • Maria · a new sandbox
      sandkasten: -# • creating “SANDBOX-1” at engine
        -# ▪ sandbox\\_run\\_command git init -q . && echo before \\> file.txt
        -# ▪ sandbox\\_write\\_file file.txt
        It says **after** now.
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME"
    `)
    expect(model.requests.at(-1)!.authorization).toBe(`Bearer ${modelKey}`)
  })

  it('2: a thread on the same sandbox, which is started again', async () => {
    await run(maria.in(thread), 'sandbox-stop')
    model.script = steps({ tool: 'sandbox_run_command', args: { cmd: 'cat file.txt' } }, { text: 'I see.' })
    await maria.runSlashCommand('sandbox', { sandbox: names[0]!, prompt: 'look around' })
    const second = await channel.waitForThread('look around')
    expect(await answered(second, 1)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: **look around**
        -# • Maria · SANDBOX-1
      sandkasten: -# • starting “SANDBOX-1” at engine
        -# ▪ sandbox\\_run\\_command cat file.txt
        I see.
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME"
    `)
    expect(model.requests.at(-1)!.lastResult).toContain('after')
    expect(JSON.stringify(model.requests.at(-1)!.messages)).not.toContain('change the file')
  })

  it('3: sandkasten send on the sandbox', async () => {
    model.script = ({ prompt }) => ({ text: `You said: ${prompt}` })
    const place = ['send', '--channel', channel.id, '--wait']
    const sent = await sandkasten([...place, '--sandbox', names[0]!, '--prompt', 'run tests'], env)
    expect(sent).toMatchObject({ code: 0, stdout: 'You said: run tests\n' })
    expect(await answered(channel.threads.at(-1)!, 1)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: run tests
      sandkasten: You said: run tests
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME"
    `)
    const typo = await sandkasten([...place, '--sandbox', `${names[0]!}x`, '--prompt', 'x'], env)
    expect(typo.code).toBe(1)
    expect(typo.stdout).toContain(names[0]!)
    expect(await sandboxes.list()).toHaveLength(1)
  })

  it('4: sandkasten send on a new sandbox', async () => {
    const options = ['--new-sandbox', 'from-ci', '--sandbox-provider', 'engine', '--prompt', 'set up CI']
    const sent = await sandkasten(['send', '--channel', channel.id, '--wait', ...options], env)
    expect(sent).toMatchObject({ code: 0, stdout: 'You said: set up CI\n' })
    expect(await answered(channel.threads.at(-1)!, 1)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: set up CI
      sandkasten: -# • creating “SANDBOX-2” at engine
        You said: set up CI
        -# ✓ SANDBOX-2 · engine · running · local/m1 · COST · TIME"
    `)
    expect(await shown(await run(maria, 'sandbox-list'))).toMatchInlineSnapshot(`
      "sandkasten (only Maria sees this): \`\`\`
        NAME  PROVIDER  STATUS  LAST USED  THREADS
        SANDBOX-2  engine  running  now  1
        SANDBOX-1  engine  running  now  3
        \`\`\`"
    `)
  })

  it('keys and the token are in no message, no log, no file and no sandbox', async () => {
    for (const secret of [twin.token, modelKey]) {
      expect(everythingShown(twin)).not.toContain(secret)
      expect(log).not.toContain(secret)
      expect(filesWith(secret, dataDir)).toEqual([])
      for (const name of names) {
        const { handle } = await sandboxes.resume(name)
        expect(await placesInSandbox(handle, secret)).toEqual([])
      }
    }
    expect(everythingShown(twin)).toContain('set up CI')
    expect(filesWith('set up CI', dataDir)).not.toEqual([])
  })

  it('5: the sandbox starts again when its thread speaks, and its end archives its threads', async () => {
    await run(maria.in(thread), 'sandbox-stop')
    await maria.in(thread).say('go on')
    expect(await answered(thread, 2)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: **change the file**
        -# • Maria · a new sandbox
      sandkasten: -# • creating “SANDBOX-1” at engine
        -# ▪ sandbox\\_run\\_command git init -q . && echo before \\> file.txt
        -# ▪ sandbox\\_write\\_file file.txt
        It says **after** now.
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME
      sandkasten: -# • SANDBOX-1 is stopped.
      sandkasten: -# • SANDBOX-1 is stopped.
      Maria: go on
      sandkasten: -# • starting “SANDBOX-1” at engine
        You said: go on
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME
      sandkasten: -# ▲ “SANDBOX-1” was started again: its processes are gone, and its files are still there."
    `)
    expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain('change the file')
    // The agent lets go of its sandbox a moment after its answer.
    await expect.poll(async () => (await sandboxes.get(names[0]!)).uses).toEqual([])
    const used = await maria.in(thread).runSlashCommand('sandbox-destroy')
    const asked = await used.waitForReply(patience)
    expect(await shown(String(asked))).toMatchInlineSnapshot(`
      "sandkasten (only Maria sees this): Destroy **SANDBOX-1** (engine, running) and its disk?
        -# Threads that will be archived: #A title #A title #A title
        [Destroy] [Keep]"
    `)
    await maria.in(thread).clickButton(asked, 'Destroy')
    const count = () => channel.threads.filter(({ isArchived }) => isArchived).length
    await twin.waitFor('three threads to be archived', () => count() === 3, patience)
    expect(asked.content).toContain('is being destroyed')
    expect(thread.isArchived).toBe(true)
    expect(await shown(await run(maria, 'sandbox-list'))).toMatchInlineSnapshot(`
      "sandkasten (only Maria sees this): \`\`\`
        NAME  PROVIDER  STATUS  LAST USED  THREADS
        SANDBOX-2  engine  running  now  1
        \`\`\`"
    `)
  })

  it('runs opencode inside new sandboxes, which reach the model and nothing else', async () => {
    await stopped(bot)
    await startBot('--mode', 'inside')
    const look = 'echo made > made.txt; curl -sS -m 3 http://198.51.100.7/ 2>&1 | head -c 300; true'
    model.script = steps(
      { tool: 'bash', args: { command: look, description: 'Look around' } },
      { text: 'Nothing else is there.' },
    )
    await maria.runSlashCommand('sandbox', { prompt: 'work inside' })
    const inside = await channel.waitForThread('work inside')
    expect(await answered(inside, 1)).toContain('Nothing else is there.')
    expect(model.requests.at(-1)!.tools).toContain('bash')
    expect(model.requests.at(-1)!.tools).toContain('thread_send_file')
    expect(model.requests.at(-1)!.lastResult).not.toContain('<html')
    const { record, handle } = await sandboxes.resume((await sandboxes.ofThread(inside.id))!.name)
    expect(new TextDecoder().decode(await handle.readFile('made.txt'))).toBe('made\n')
    expect(record.network).toMatchObject({ allow: expect.any(Array) })
  })
})

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  await new Promise((resolve) => child.once('exit', resolve).kill('SIGTERM'))
}
