import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { TwinChannel } from '@sandkasten/discord/testing'
import { modelNetwork, modelUrl } from '@sandkasten/opencode'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kindsAt } from '../../packages/cli/src/sandbox/open.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import {
  type ModelReply,
  type ModelServer,
  modelConfig,
  startModelServer,
  steps,
} from '../../packages/opencode/src/testing/model-server.ts'
import { type GitServer, startGitServer } from './git-server.ts'
import { everythingShown, filesWith, placesInSandbox } from './secrets.ts'
import { openStage, patience, type Stage, temporaryFolder } from './stage.ts'

const missing = await isolationMissing()
const bash = (command: string): ModelReply => ({ tool: 'bash', args: { command, description: 'x' } })
const allowed = { '*': 'allow', bash: { '*': 'allow', 'rm *': 'ask' } }

function twoModels(url: string) {
  const { provider, ...rest } = modelConfig(url)
  const { m1 } = provider.local.models
  return { ...rest, provider: { local: { ...provider.local, models: { m1, m2: { ...m1, name: 'M2' } } } } }
}

/** opencode in the sandboxes of threads, and everything that members do there. The tests build on each other. */
describe.skipIf(missing)('threads with agents in their sandboxes', { timeout: 240_000 }, () => {
  let model: ModelServer
  let git: GitServer
  let stage: Stage
  let dataDir: string
  let thread: TwinChannel
  let name: string
  const stack = new AsyncDisposableStack()
  beforeAll(async () => {
    model = stack.use(await startModelServer())
    git = stack.use(await startGitServer())
    dataDir = stack.use(await temporaryFolder()).path
    const { services, ...network } = modelNetwork(model)
    stage = await openStage({
      dataDir,
      kinds: kindsAt({ folder: path.join(dataDir, 'engine') }),
      defaultProvider: 'engine',
      agents: { mode: 'inside', config: { ...twoModels(modelUrl(model)), permission: allowed } },
      sandboxDefaults: {
        network: { ...network, services: { ...services, git: { host: '127.0.0.1', port: git.port } } },
        resources: { memoryMb: 2048, vcpus: 2 },
      },
    })
    stack.use(stage)
  }, 120_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  /** Says something in the thread, and returns what the thread shows of it. */
  let count = 0
  async function say(text: string, files?: { name: string; bytes: Uint8Array }[]): Promise<string> {
    const before = (await stage.answered(thread, count)).length
    await stage.maria.in(thread).say(text, { files })
    count += 1
    return (await stage.answered(thread, count)).slice(before).trim()
  }

  it('1: a thread on a new sandbox with a repository', async () => {
    model.script = steps(
      bash('cat file.txt; echo made > made.txt'),
      { tool: 'edit', args: { filePath: '/workspace/file.txt', oldString: 'before', newString: 'after' } },
      { text: 'It says **after** now.' },
    )
    const repo = 'http://git.sandkasten.internal/app.git'
    const used = await stage.maria.runSlashCommand('sandbox', { repo, prompt: 'change the file' })
    thread = await stage.channel.waitForThread('change the file')
    count = 1
    expect(await stage.answered(thread, 1)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: **change the file**
        -# • Maria · http:​//git.sandkasten.internal/app.git
      sandkasten: -# • creating “SANDBOX-1” at engine
        -# • cloning http:​//git.sandkasten.internal/app.git
        -# • Looks into the sandbox.
        -# • Copies opencode (185 MB) into the sandbox.
        -# • Starts opencode on 127.0.0.1:7777 of the sandbox.
        -# • Waits until opencode answers.
        -# • opencode 1.18.33 is ready.
        -# ▪ bash cat file.txt; echo made \\> made.txt
        -# ▪ edit /workspace/file.txt
        It says **after** now.
        \`\`\`diff
        Index: file.txt
        ===================================================================
        --- file.txt
        +++ file.txt
        @@ -1,1 +1,1 @@
        -before
        +after

        Index: made.txt
        ===================================================================
        --- made.txt
        +++ made.txt
        @@ -0,0 +1,1 @@
        +made
        \`\`\`
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME"
    `)
    name = (await stage.sandboxes.list())[0]!.name
    expect(await stage.bot.threads.get(thread.id)).toMatchObject({ mode: 'inside', sandbox: name })
    expect(thread.members).toContain('Maria')
    expect((await used.waitForReply()).content).toContain('change the file')
    const answer = thread.messages.find(({ content }) => content.includes('It says'))!
    expect(answer.isEdited).toBe(true)
    expect(answer.buttons).toEqual([])
    expect(model.requests.at(-1)!.messages.at(-1)).toMatchObject({ role: 'tool' })
  })

  it('2: a second thread on the same sandbox, which is started again', async () => {
    expect(await stage.run(thread, 'sandbox-stop')).toContain('SANDBOX-1 is stopped')
    expect(await stage.maria.autocomplete('sandbox', 'sandbox', name.slice(0, 4))).toEqual([
      expect.objectContaining({ name: `${name} (engine, stopped)`, value: name }),
    ])
    model.script = steps(bash('git status --short; cat file.txt'), { text: 'I see.' })
    await stage.maria.runSlashCommand('sandbox', { sandbox: name, prompt: 'look around' })
    const second = await stage.channel.waitForThread('look around')
    expect(await stage.answered(second, 1)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: **look around**
        -# • Maria · SANDBOX-1
      sandkasten: -# • starting “SANDBOX-1” at engine
        -# • Looks into the sandbox.
        -# • Starts opencode on 127.0.0.1:7777 of the sandbox.
        -# • Waits until opencode answers.
        -# • opencode 1.18.33 is ready.
        -# ▪ bash git status --short; cat file.txt
        I see.
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME"
    `)
    // A session and a folder of its own.
    expect(JSON.stringify(model.requests.at(-1)!.messages)).not.toContain('change the file')
    expect(model.requests.at(-1)!.lastResult).toBe('before\n')
    expect(await stage.bot.threads.get(second.id)).toMatchObject({ sandbox: name, mode: 'inside' })
  })

  it('asks for permission with buttons', async () => {
    model.script = steps(bash('rm made.txt'), { text: 'Gone.' })
    const asking = say('remove it')
    const question = await thread.waitForMessage(/asks for permission/, patience)
    expect(question.buttons).toEqual(['Allow once', 'Always allow', 'Reject'])
    await stage.maria.in(thread).clickButton(question, 'Allow once')
    expect(await asking).toMatchInlineSnapshot(`
      "Maria: remove it
      sandkasten: -# • Looks into the sandbox.
        -# • opencode 1.18.33 is ready.
        -# ▪ bash rm made.txt
        Gone.
        \`\`\`diff
        Index: made.txt
        ===================================================================
        --- made.txt
        +++ made.txt
        @@ -1,1 +0,0 @@
        -made
        \`\`\`
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME
      sandkasten: -# ▲ “SANDBOX-1” was started again: its processes are gone, and its files are still there.
      sandkasten: -# ? The agent asks for permission
        Allow bash?
        rm made.txt
        -# Maria: Allow once"
    `)
    await question.waitUntil(/Maria: Allow once/, patience)
    expect(await stage.steady(String(question))).toMatchInlineSnapshot(`
      "sandkasten: -# ? The agent asks for permission
        Allow bash?
        rm made.txt
        -# Maria: Allow once"
    `)
    expect(await stage.run(thread, 'shell', { command: 'cat file.txt; ls' })).toMatchInlineSnapshot(`
      "sandkasten: -# • cat file.txt; ls · exit code 0
        \`\`\`
        after
        file.txt
        \`\`\`"
    `)
  })

  it('shows a question of the agent as a list', async () => {
    const options = ['Red', 'Green', 'Blue', 'Cyan', 'Pink'].map((label) => ({
      label,
      description: `is ${label}`,
    }))
    const questions = [{ question: 'Which color?', header: 'Color', options, multiple: false }]
    model.script = steps({ tool: 'question', args: { questions } }, { text: 'A good choice.' })
    const asking = say('paint it')
    const question = await thread.waitForMessage(/The agent asks\n/, patience)
    await stage.maria.in(thread).select(question, 'Blue')
    expect(await asking).toMatchInlineSnapshot(`
      "Maria: paint it
      sandkasten: -# • Looks into the sandbox.
        -# • opencode 1.18.33 is ready.
        -# ▪ question Which color?
        A good choice.
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME
      sandkasten: -# ? The agent asks
        Which color?
        - **Red** is Red
        - **Green** is Green
        - **Blue** is Blue
        - **Cyan** is Cyan
        - **Pink** is Pink
        -# Maria: Blue"
    `)
    expect(model.requests.at(-1)!.lastResult).toContain('"Which color?"="Blue"')
  })

  it('/abort ends the answer, and the next message is answered', async () => {
    model.script = () => ({ hang: true })
    const hanging = say('think for ever')
    await thread.waitForMessage(/^sandkasten: .*… working/, patience)
    expect(await stage.run(thread, 'abort')).toContain('Stopped')
    expect(await hanging).toMatchInlineSnapshot(`
      "Maria: think for ever
      sandkasten: -# ■ aborted · SANDBOX-1 · engine · running · local/m1 · COST · TIME
      sandkasten (only Maria sees this): -# ■ Stopped."
    `)
    // The connection breaks; opencode tries again and again.
    model.script = () => {
      throw new Error('no answer')
    }
    const waiting = say('are you asleep?')
    await thread.waitForMessage(/✕ .*\n.*… working/, patience)
    await stage.run(thread, 'abort')
    expect(await waiting).toMatch(/aborted/)
    model.script = () => ({ text: 'Here again.' })
    expect(await say('are you there?')).toMatchInlineSnapshot(`
      "Maria: are you there?
      sandkasten: Here again.
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME"
    `)
  })

  it('copies attachments into the sandbox', async () => {
    model.script = ({ answered: count, prompt, lastResult }) => {
      const file = /^- (.*)$/m.exec(prompt)![1]
      return count === 0 ? bash(`cat '${file}'`) : { text: `It says ${lastResult.trim()}.` }
    }
    const files = [{ name: 'notes é.txt', bytes: Buffer.from('hello from Maria') }]
    expect(await say('read this', files)).toMatchInlineSnapshot(`
      "Maria: read this
        file: notes_é.txt (16 bytes)
      sandkasten: -# • Looks into the sandbox.
        -# • opencode 1.18.33 is ready.
        -# • copying a file
        -# ▪ bash cat '/workspace/.sandkasten/attachments/7/1-notes\\_é.txt'
        It says hello from Maria.
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME"
    `)
  })

  it('sends files from inside the sandbox, and asks members', async () => {
    model.script = steps(
      bash('printf hello > result.txt'),
      { tool: 'thread_send_file', args: { path: 'result.txt', note: 'The result.' } },
      { tool: 'thread_ask_user', args: { question: 'Is it good?', choices: ['Yes', 'No'] } },
      { text: 'Finished.' },
    )
    const asking = say('send me the result')
    const question = await thread.waitForMessage(/The agent asks\n.*Is it good/, patience)
    await stage.maria.in(thread).clickButton(question, 'Yes')
    expect(await asking).toMatchInlineSnapshot(`
      "Maria: send me the result
      sandkasten: -# ▪ bash printf hello \\> result.txt
        -# ▪ thread\\_send\\_file result.txt
        -# ▪ thread\\_ask\\_user
        Finished.
        \`\`\`diff
        Index: result.txt
        ===================================================================
        --- result.txt
        +++ result.txt
        @@ -0,0 +1,1 @@
        +hello
        \\ No newline at end of file
        \`\`\`
        -# ✓ SANDBOX-1 · engine · running · local/m1 · COST · TIME
      sandkasten: -# • The result.
      sandkasten:
        file: result.txt (5 bytes)
      sandkasten: -# ? The agent asks
        Is it good?
        -# Maria: Yes"
    `)
    expect(model.requests.at(-1)!.lastResult).toBe('The user replied: Yes')
    const sent = thread.messages.findLast(({ attachments }) => attachments.length > 0)!
    expect(Buffer.from(await sent.download('result.txt')).toString()).toBe('hello')
  })

  it('/diff and /pull give changes that apply to a clean clone', async () => {
    model.script = steps(
      bash(
        'printf "caf\\303\\251\\000" > bin.dat; git add . && git -c user.name=t -c user.email=t@e commit -qm second; echo new > new.txt',
      ),
      { text: 'ok' },
    )
    await say('commit')
    const diff = await stage.run(thread, 'diff')
    expect(diff).toContain('-before')
    expect(diff).toContain('+after')
    expect(diff).not.toContain('.sandkasten')
    const pull = async (as: string) => {
      const used = await stage.maria.in(thread).runSlashCommand('pull', { as })
      const reply = await used.waitForReply(patience)
      const { filename } = reply.attachments[0]!
      const file = path.join(dataDir, filename)
      await writeFile(file, await reply.download(filename))
      return file
    }
    const patched = git.clone('patched')
    git.git('patched', 'apply', await pull('patch'))
    const bundle = await pull('branch')
    const fetched = git.clone('fetched')
    const [, branch] = /refs\/heads\/(\S+)/.exec(git.git('fetched', 'bundle', 'list-heads', bundle))!
    git.git('fetched', 'fetch', '-q', bundle, branch!)
    git.git('fetched', 'checkout', '-q', 'FETCH_HEAD')
    for (const folder of [patched, fetched]) {
      expect(await readFile(path.join(folder, 'file.txt'), 'utf8')).toBe('after\n')
      expect(await readFile(path.join(folder, 'new.txt'), 'utf8')).toBe('new\n')
      expect(await readFile(path.join(folder, 'bin.dat'))).toEqual(Buffer.from('café\0'))
      const files = execFileSync('ls', [folder], { encoding: 'utf8' }).trim().split('\n')
      expect(files).toEqual(['bin.dat', 'file.txt', 'new.txt', 'result.txt'])
    }
  })

  it('/model and /url', async () => {
    expect(await stage.run(thread, 'model', { model: 'local/m2' })).toMatchInlineSnapshot(
      `"sandkasten: -# • The next messages use local/m2."`,
    )
    model.script = () => ({ text: 'Another model.' })
    expect(await say('who are you?')).toMatchInlineSnapshot(`
      "Maria: who are you?
      sandkasten: -# • Looks into the sandbox.
        -# • opencode 1.18.33 is ready.
        Another model.
        -# ✓ SANDBOX-1 · engine · running · local/m2 · COST · TIME"
    `)
    await stage.run(thread, 'model', { model: 'local/none' })
    expect(await say('and who is this?')).toMatchInlineSnapshot(`
      "Maria: and who is this?
      sandkasten: -# • Looks into the sandbox.
        -# • opencode 1.18.33 is ready.
        -# ✕ The agent has no model “local/none”.
        -# It has local/m1, local/m2.
        -# ✗ failed"
    `)
    await stage.run(thread, 'model', { model: 'default' })
    expect(await say('and now?')).toContain('local/m1')
    expect(await stage.run(thread, 'url', { port: 3000 })).toMatchInlineSnapshot(`
      "sandkasten (only Maria sees this): -# ✕ The provider engine has no links that a browser can open.
        -# On the machine of the bot: sandkasten sandbox url SANDBOX-1 3000."
    `)
  })

  it('/sandbox-fork goes on in a copy', async () => {
    model.script = steps(bash('cat file.txt; echo fork > file.txt'), { text: 'I remember.' })
    await stage.run(thread, 'sandbox-fork', { prompt: 'and in the copy?' })
    const fork = await stage.channel.waitForThread('and in the copy?')
    expect(await stage.answered(fork, 1)).toMatchInlineSnapshot(`
      "# A title
      sandkasten: **and in the copy?**
        -# • Maria · a copy of #A title
      sandkasten: -# • saving “SANDBOX-1” at engine
        -# • creating “SANDBOX-2” at engine
        -# • Looks into the sandbox.
        -# • Copies opencode (185 MB) into the sandbox.
        -# • Starts opencode on 127.0.0.1:7777 of the sandbox.
        -# • Waits until opencode answers.
        -# • opencode 1.18.33 is ready.
        -# ▪ bash cat file.txt; echo fork \\> file.txt
        I remember.
        \`\`\`diff
        Index: file.txt
        ===================================================================
        --- file.txt
        +++ file.txt
        @@ -1,1 +1,1 @@
        -after
        +fork
        \`\`\`
        -# ✓ SANDBOX-2 · engine · running · local/m1 · COST · TIME"
    `)
    expect(JSON.stringify(model.requests.at(-1)!.messages)).toContain('change the file')
    expect(model.requests.at(-1)!.lastResult).toBe('after\n')
    expect(await stage.run(thread, 'shell', { command: 'cat file.txt' })).toContain('after')
    expect((await stage.bot.threads.get(fork.id))!.sandbox).not.toBe(name)
  })

  it('the bot’s token is nowhere', async () => {
    const { token } = stage.twin
    expect(everythingShown(stage.twin)).toContain('change the file')
    expect(everythingShown(stage.twin)).not.toContain(token)
    expect(stage.log.join('\n')).not.toContain(token)
    expect(filesWith('change the file', dataDir)).not.toEqual([])
    expect(filesWith(token, dataDir)).toEqual([])
    const { handle } = await stage.sandboxes.resume(name)
    expect(await placesInSandbox(handle, token)).toEqual([])
    expect(await placesInSandbox(handle, 'OPENCODE_SERVER_PASSWORD')).toContain('processes')
  })

  it('5: the list, and a destroy that asks first and archives the threads', async () => {
    const list = await stage.run(stage.channel, 'sandbox-list')
    expect(list).toMatch(/SANDBOX-1 {2}engine {2}running {2}\S.* {2}2\n/)
    expect(list).toMatch(/SANDBOX-2 {2}engine {2}running {2}\S.* {2}1\n/)
    const used = await stage.maria.in(thread).runSlashCommand('sandbox-destroy')
    const asked = await used.waitForReply(patience)
    expect(await stage.steady(String(asked))).toMatchInlineSnapshot(`
      "sandkasten (only Maria sees this): Destroy **SANDBOX-1** (engine, running) and its disk?
        -# Threads that will be archived: #A title #A title
        [Destroy] [Keep]"
    `)
    await stage.maria.in(thread).clickButton(asked, 'Destroy')
    await thread.waitForTranscript(/\(archived\)/, patience)
    expect(asked.content).toContain(`${name} is being destroyed`)
    expect(asked.buttons).toEqual([])
    const count = () => stage.channel.threads.filter(({ isArchived }) => isArchived).length
    await stage.twin.waitFor('both threads to be archived', () => count() === 2, patience)
    expect(await stage.steady(thread.transcript().split('\n').slice(-3).join('\n'))).toMatchInlineSnapshot(`
      "  \`\`\`
      sandkasten (only Maria sees this): -# • SANDBOX-1 is being destroyed. Its threads are archived.
      sandkasten: -# ▲ “SANDBOX-1” was destroyed. To go on, connect this thread to another sandbox."
    `)
    expect(thread.isArchived).toBe(true)
    expect((await stage.sandboxes.list()).map((one) => one.name)).not.toContain(name)
  })
})
