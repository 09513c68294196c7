import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createBot } from '@sandkasten/discord'
import { startTwin } from '@sandkasten/discord/testing'
import { openRegistry } from '@sandkasten/registry'
import { LocalProvider } from '@sandkasten/sdk/local'
import { openThreads } from '@sandkasten/threads'
import { describe, expect, it, onTestFinished } from 'vitest'
import { sandkasten } from '../helper.ts'
import { EchoAgents } from './echo-agents.ts'

async function open() {
  const home = await mkdtemp(path.join(tmpdir(), 'sk-cli-discord-'))
  const twin = await startTwin()
  const channel = twin.guild('Workshop').channel('general')
  onTestFinished(async () => {
    await twin.close()
    await rm(home, { recursive: true, force: true })
  })
  const env = { SANDKASTEN_HOME: home, SANDKASTEN_DISCORD_API: twin.api }
  const withToken = { ...env, DISCORD_BOT_TOKEN: twin.token }
  return { home, twin, channel, env, withToken }
}

describe('sandkasten discord setup', () => {
  it('checks the token, stores it for this account only, and never prints it', async () => {
    const { home, twin, env } = await open()
    const done = await sandkasten(['discord', 'setup'], env, { input: `${twin.token}\n` })
    expect(done).toMatchObject({ code: 0, stderr: '' })
    expect(done.stdout).toContain('The token is valid: it belongs to sandkasten.')
    expect(done.stdout).toMatch(
      /https:\/\/discord\.com\/oauth2\/authorize\?client_id=\d+&scope=bot\+applications\.commands&permissions=326417632320\n/,
    )
    expect(done.stdout + done.stderr).not.toContain(twin.token)
    const file = path.join(home, 'discord', 'bot.json')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect((await stat(path.dirname(file))).mode & 0o777).toBe(0o700)
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({
      token: twin.token,
      appId: twin.mainBot.id,
    })

    const again = await sandkasten(['discord', 'setup'], env, { input: twin.token })
    expect(again.stdout).toContain('registered already')
    const removed = await sandkasten(['discord', 'setup', '--remove'], env)
    expect(removed.stdout).toContain('removed')
    await expect(stat(file)).rejects.toThrow()
  })

  it.each([
    ['a word that is no token', 'hunter2hunter2', 'not a token'],
    [
      'a token that Discord refuses',
      'MTIzNDU2Nzg5MDEyMzQ1Njc4.Gabcde.abcdefghijklmnopqrstuvwxyz0123456789ab',
      'refused',
    ],
  ])('refuses %s, and does not repeat it', async (_, token, words) => {
    const { env } = await open()
    const done = await sandkasten(['discord', 'setup'], env, { input: token })
    expect(done.code).toBe(125)
    expect(done.stderr).toContain(words)
    expect(done.stdout + done.stderr).not.toContain(token)
  })

  it('prints a unit for systemd, without the token', async () => {
    const { withToken, twin } = await open()
    const { stdout } = await sandkasten(['discord', 'unit', '--', '--model', 'vendor/model'], withToken)
    expect(stdout).toMatch(/^\[Unit\]\n[\s\S]*ExecStart=.*sandkasten\.js discord --model vendor\/model\n/)
    expect(stdout).not.toContain(twin.token)
  })
})

describe('sandkasten send', () => {
  it('needs only a token; the bot does the work', async () => {
    const { home, twin, channel, withToken } = await open()
    const place = ['send', '--channel', channel.id]
    const sent = await sandkasten([...place, '--new-sandbox', 'made-by-ci', '--prompt', 'first'], withToken)
    expect(sent).toMatchObject({ code: 0, stderr: '' })
    expect(sent.stdout).toMatch(/^https:\/\/discord\.com\/channels\/\d+\/\d+\n$/)
    const late = await sandkasten(
      [...place, '--new-sandbox', '--prompt', 'x', '--wait', '--timeout', '1s'],
      withToken,
    )
    expect(late.code).toBe(3)
    expect(late.stderr).toContain('No bot has answered')

    const provider = new LocalProvider({ root: path.join(home, 'local'), acceptNoIsolation: true })
    const kinds = [{ provider: 'local', title: 'Local', fields: [], make: () => provider }]
    // Another data folder: the bot runs on another machine.
    const dataDir = path.join(home, 'elsewhere')
    const registry = await openRegistry({ dataDir, kinds, defaultProvider: 'local', env: {} })
    const bot = await createBot({
      token: twin.token,
      registry,
      kinds,
      api: twin.api,
      alive: { read: async () => Date.now() - 60_000, write: async () => {} },
      open: ({ chat, appId }) =>
        openThreads({ appId, chat, registry, agents: new EchoAgents(), dataDir, env: {} }),
    })
    onTestFinished(async () => {
      await bot.close()
      await registry.close()
    })
    await bot.start()
    const thread = await channel.waitForThread('first')
    await thread.waitForTranscript(/echo: first\n.*✓ made-by-ci/)

    const file = path.join(home, 'notes.txt')
    await writeFile(file, 'hello')
    await chmod(file, 0o600)
    const wait = ['--wait', '--sandbox', 'made-by-ci']
    const done = await sandkasten([...place, ...wait, '--prompt', 'and *now*', '--file', file], withToken)
    expect(done).toMatchObject({ code: 0, stdout: 'echo: and *now*\n' })
    const failed = await sandkasten([...place, ...wait], withToken, { input: 'please fail' })
    expect(failed).toMatchObject({ code: 1 })
    const typo = await sandkasten([...place, '--wait', '--sandbox', 'made-by-c1', '--prompt', 'x'], withToken)
    expect(typo.code).toBe(1)
    expect(typo.stdout).toContain('made-by-ci')
    const more = await sandkasten(['send', '--thread', thread.id, '--wait', '--prompt', 'go on'], withToken)
    expect(more).toMatchObject({ code: 0, stdout: 'echo: go on\n' })
    const all = [sent, late, done, failed, typo, more].map(({ stdout, stderr }) => stdout + stderr).join('')
    expect(all).not.toContain(twin.token)
  })

  it('checks a name before it sends, if the sandboxes of the bot are on this machine', async () => {
    const { home, twin, channel, withToken } = await open()
    const provider = new LocalProvider({ root: path.join(home, 'local'), acceptNoIsolation: true })
    const kinds = [{ provider: 'local', title: 'Local', fields: [], make: () => provider }]
    const registry = await openRegistry({ dataDir: home, kinds, defaultProvider: 'local', env: {} })
    await registry.in({ appId: twin.mainBot.id, guildId: channel.guildId }).create({ name: 'brave-otter' })
    await registry.close()
    const done = await sandkasten(
      ['send', '--channel', channel.id, '--sandbox', 'brave-oter', '--prompt', 'x'],
      withToken,
    )
    expect(done.code).toBe(1)
    expect(done.stderr).toMatch(/Nothing was sent\.\n.*brave-otter/)
    expect(channel.messages).toEqual([])
  })

  it.each([
    [['--prompt', 'x', '--new-sandbox'], 'No channel'],
    [['--channel', '1', '--prompt', 'x'], 'No sandbox'],
    [['--channel', 'general', '--prompt', 'x', '--new-sandbox'], 'id of a channel'],
    [['--channel', '1', '--prompt', 'x', '--sandbox', 'a', '--sandbox-provider', 'local'], 'new sandboxes'],
    [['--channel', '1', '--new-sandbox'], 'No prompt'],
  ])('explains %j', async (args, words) => {
    const { withToken } = await open()
    const done = await sandkasten(['send', ...args], withToken)
    expect(done.code).toBe(125)
    expect(done.stderr).toContain(words)
  })

  it('says that there is no token', async () => {
    const { env } = await open()
    const done = await sandkasten(
      ['send', '--channel', '123456789012345678', '--new-sandbox', '--prompt', 'x'],
      env,
    )
    expect(done.code).toBe(125)
    expect(done.stderr).toContain('DISCORD_BOT_TOKEN')
  })
})
