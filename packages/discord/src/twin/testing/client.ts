import { Client, type ClientOptions, GatewayIntentBits } from 'discord.js'
import type { Twin, TwinBot } from '../index.ts'

export const INTENTS = [
  GatewayIntentBits.Guilds,
  GatewayIntentBits.GuildMessages,
  GatewayIntentBits.GuildMessageReactions,
  GatewayIntentBits.MessageContent,
]

/** The real discord.js, logged in to the twin and ready. */
export async function login(
  discord: Twin,
  { bot = discord.mainBot, ...options }: Partial<ClientOptions> & { bot?: TwinBot } = {},
): Promise<Client<true>> {
  const client = new Client({
    intents: INTENTS,
    // discord.js waits five seconds between two identifies of a client.
    ws: { buildIdentifyThrottler: async () => ({ waitForIdentify: async () => {} }) },
    ...options,
    rest: { api: discord.api, version: '10', ...options.rest },
  })
  client.on('warn', (text) => {
    throw new Error(`discord.js warns: ${text}`)
  })
  const ready = new Promise<void>((resolve) => client.once('clientReady', () => resolve()))
  await client.login(bot.token)
  await ready
  return client as Client<true>
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

/** A request without discord.js, which would retry and wait. */
export async function request(
  discord: Twin,
  method: string,
  path: string,
  body?: unknown,
  token = discord.token,
): Promise<Answer> {
  const response = await fetch(`${discord.api}/v10${path}`, {
    method,
    headers: { authorization: `Bot ${token}`, 'content-type': 'application/json' },
    body: typeof body === 'string' || body === undefined ? body : JSON.stringify(body),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : {} }
}
