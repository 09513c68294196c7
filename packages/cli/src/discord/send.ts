import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import type { Marker, SendPlace } from '@sandkasten/discord'
import { suggest } from '@sandkasten/registry'
import { SandboxError } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { registryPlace } from '../registry-place.ts'
import { interruptible } from '../sandbox/interrupt.ts'
import { openHere } from '../sandbox/open.ts'
import { report } from '../sandbox/report.ts'
import { print } from '../table.ts'
import { tokenHere } from './token.ts'

export interface SendOptions {
  channel?: string
  thread?: string
  prompt?: string
  sandbox?: string
  /** True: with a readable name. */
  newSandbox?: string | true
  sandboxProvider?: string
  sandboxRepo?: string
  sandboxSnapshot?: string
  model?: string
  file?: string[]
  wait?: boolean
  /** In seconds. */
  timeout?: number
  json?: boolean
}

/** No bot has answered in time. */
const noAnswer = 3

/** `sandkasten send`. Needs the bot’s token and no database: the running bot makes the thread and the sandbox. */
export async function send(options: SendOptions): Promise<number> {
  const { json = false, wait, timeout = 3600 } = options
  const marker = markerOf(options)
  const prompt = await promptOf(options)
  const files = await Promise.all((options.file ?? []).map(fileOf))
  const discord = await import('@sandkasten/discord')
  const place = await discord.openPlace(await tokenHere(), options.thread ?? options.channel!, {
    api: process.env.SANDKASTEN_DISCORD_API,
  })
  if (options.thread === undefined && place.isThread)
    throw invalid('--channel names a thread.', 'Pass a channel, or use --thread.')
  if (marker.sandbox !== undefined && !(await isKnown(marker.sandbox, place))) return 1
  const sent = await discord.send(place, { prompt, marker, files })
  const link = discord.linkOf(sent)
  if (!wait) {
    print(json, { link, messageId: sent.messageId }, () => link)
    return 0
  }
  say(`sandkasten: waiting for the answer: ${link}`)
  const answerWithinMs = timeout * 1000
  try {
    const { end, text } = await interruptible((signal) =>
      discord.follow(sent, { signal, answerWithinMs, reactWithinMs: Math.min(answerWithinMs, 60_000) }),
    )
    print(json, { link, end, text }, () => text)
    return end === 'done' ? 0 : 1
  } catch (error) {
    if (!SandboxError.is(error, 'timeout')) throw error
    report(error)
    return noAnswer
  }
}

function markerOf(options: SendOptions): Omit<Marker, 'promptFile'> {
  const { channel, thread, sandbox, newSandbox, sandboxProvider, sandboxRepo, sandboxSnapshot, model } =
    options
  if (channel === undefined && thread === undefined)
    throw invalid('No channel is given.', 'Pass --channel ID for a new thread, or --thread ID.')
  const forNew = { provider: sandboxProvider, repo: sandboxRepo, snapshotId: sandboxSnapshot }
  const isNew = newSandbox !== undefined
  if (!isNew && Object.values(forNew).some((value) => value !== undefined))
    throw invalid(
      '--sandbox-provider, --sandbox-repo and --sandbox-snapshot are for new sandboxes.',
      'Add --new-sandbox.',
    )
  if (thread === undefined && sandbox === undefined && !isNew)
    throw invalid('No sandbox is given.', 'Pass --sandbox NAME, or --new-sandbox.')
  const name = typeof newSandbox === 'string' ? newSandbox : undefined
  return {
    // 22 characters: Discord limits a nonce to 25.
    id: randomBytes(16).toString('base64url'),
    by: process.env.GITHUB_ACTOR || userInfo().username,
    sandbox,
    create: isNew ? { name, ...forNew } : undefined,
    model,
  }
}

async function promptOf({ prompt }: SendOptions): Promise<string> {
  if (prompt?.trim()) return prompt
  const { readStdin } = await import('../sandbox/setup/from-stdin.ts')
  const piped = process.stdin.isTTY ? '' : (await readStdin()).trim()
  if (piped !== '') return piped
  throw invalid('No prompt is given.', 'Pass --prompt TEXT, or pipe it.')
}

async function fileOf(file: string): Promise<{ name: string; bytes: Uint8Array }> {
  return { name: path.basename(file), bytes: await readFile(file) }
}

/** Whether a registry on this machine has the sandbox. Without sandboxes of this bot here, the bot decides. */
async function isKnown(name: string, { appId, guildId }: SendPlace): Promise<boolean> {
  const { data } = await registryPlace()
  if (!process.env.SANDKASTEN_REGISTRY_URL && !existsSync(path.join(data, 'registry', 'registry.db')))
    return true
  await using opened = await openHere()
  const names = (await opened.registry.in({ appId, guildId }).list()).map((record) => record.name)
  if (names.length === 0 || names.includes(name)) return true
  const near = suggest(name, names)
  say(`sandkasten: There is no sandbox “${name}”. Nothing was sent.`)
  say(
    near.length > 0
      ? `  Did you mean ${near.join(' or ')}?`
      : `  There are: ${names.slice(0, 10).join(', ')}.`,
  )
  return false
}

function invalid(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}
