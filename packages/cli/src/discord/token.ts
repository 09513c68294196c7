import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { registryPlace } from '../registry-place.ts'
import { answerTo, canAsk, onStderr } from '../sandbox/ask.ts'

/** The bot of this account. The file is as secret as the registry’s key beside it, and has the same mode. */
export interface StoredBot {
  readonly token: string
  readonly appId: string
  readonly name: string
}

export const tokenVariable = 'DISCORD_BOT_TOKEN'

async function tokenFile(): Promise<string> {
  return path.join((await registryPlace()).data, 'discord', 'bot.json')
}

export async function storedBot(): Promise<StoredBot | undefined> {
  try {
    return JSON.parse(await readFile(await tokenFile(), 'utf8')) as StoredBot
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

export async function storeBot(bot: StoredBot): Promise<string> {
  const file = await tokenFile()
  const folder = path.dirname(file)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700)
  const fresh = `${file}.${process.pid}`
  await writeFile(fresh, `${JSON.stringify(bot)}\n`, { mode: 0o600 })
  await rename(fresh, file)
  return file
}

/** False: none was stored. */
export async function removeBot(): Promise<boolean> {
  const was = await storedBot()
  await rm(await tokenFile(), { force: true })
  return was !== undefined
}

/** From the variable, then the stored one. Never from an argument: other accounts can see those. */
export async function tokenHere(): Promise<string> {
  const token = process.env[tokenVariable]?.trim() || (await storedBot())?.token
  if (token) return token
  throw new SandboxError('unauthenticated', 'There is no token of a Discord bot.', {
    hint: `Run sandkasten discord setup, or set ${tokenVariable}.`,
  })
}

/** From the variable, stdin, or a prompt without echo. */
export async function newToken(asking: { json?: boolean }): Promise<string> {
  const variable = process.env[tokenVariable]?.trim()
  if (variable) return variable
  if (!canAsk(asking)) {
    const { readStdin } = await import('../sandbox/setup/from-stdin.ts')
    const piped = process.stdin.isTTY ? '' : (await readStdin()).trim()
    if (piped !== '') return piped
    throw new SandboxError('invalid_argument', 'There is no terminal to ask for the token.', {
      hint: `Pipe it, or set ${tokenVariable}.`,
    })
  }
  const { password } = await import('@clack/prompts')
  return answerTo(
    password({
      ...onStderr,
      message: 'The bot’s token (developer portal → your application → Bot → Token)',
      validate: (value) => (value?.trim() ? undefined : 'Paste the token, or press Ctrl-C.'),
      // Not even the length is shown.
      mask: '',
    }),
  )
}
