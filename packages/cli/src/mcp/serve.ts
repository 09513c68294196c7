import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { serveHttp, serveStdio, type ToolCaller } from '@sandkasten/mcp'
import { brokerCaller, launchBroker, readTokenFile, SavedTokens } from '@sandkasten/mcp/broker'
import { SandboxError } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { endings } from '../steer.ts'
import { brokerHere } from './place.ts'
import { type SandboxChoice, savedName, thisProgram } from './program.ts'

export interface ServeOptions extends SandboxChoice {
  allowFolder?: string[]
  tokenFile?: string
  broker?: string
  listen?: number
}

/** The agent’s side. It needs a token, and reads neither the registry nor credentials of providers. */
export async function serve(options: ServeOptions): Promise<number> {
  const { allowFolder: allowFolders, listen: port } = options
  const token = await tokenSource(options)
  const caller = await callerFor(options, token)
  if (port !== undefined) {
    await using server = await serveHttp(caller, {
      allowFolders,
      port,
      token: await token({ refused: false }),
    })
    say(`sandkasten: MCP is at ${server.url}; the token of the sandbox is its bearer token.`)
    await ending()
    return 0
  }
  const server = serveStdio(caller, { allowFolders })
  await Promise.race([ending(), new Promise((resolve) => process.stdin.once('close', resolve))])
  await server.close()
  return 0
}

async function callerFor({ broker }: ServeOptions, token: TokenSource): Promise<ToolCaller> {
  if (broker !== undefined) return brokerCaller({ address: broker, token })
  const place = await brokerHere()
  const command = thisProgram('mcp', 'broker', '--idle-exit', '15m')
  return brokerCaller({ address: place.socket, token, start: () => launchBroker({ place, command }) })
}

type TokenSource = (options: { refused: boolean }) => Promise<string>

/** A given token is used as it is. A saved one is made when it is missing or refused, by a process of its own. */
async function tokenSource(options: ServeOptions): Promise<TokenSource> {
  const given = options.tokenFile === undefined ? process.env.SANDKASTEN_MCP_TOKEN : undefined
  delete process.env.SANDKASTEN_MCP_TOKEN
  if (given) return async () => given
  const { tokenFile } = options
  if (tokenFile !== undefined) return () => readTokenFile(tokenFile)
  const name = savedName(options)
  const { tokens: folder } = await brokerHere()
  const saved = new SavedTokens(folder)
  return async ({ refused }) => {
    const found = refused ? undefined : await saved.read(name)
    if (found !== undefined) return found
    await makeToken(options)
    const made = await saved.read(name)
    if (made === undefined) throw new SandboxError('internal', 'The token was not saved.')
    return made
  }
}

/** Another process opens the registry: this one never has its key. */
async function makeToken({ sandbox, providerSandbox }: SandboxChoice): Promise<void> {
  const which = sandbox === undefined ? ['--provider-sandbox', providerSandbox!] : ['--', sandbox]
  const [program, ...args] = thisProgram('mcp', 'token', '--save', ...which)
  try {
    await promisify(execFile)(program!, args, { timeout: 60_000 })
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string }
    const message = stderr.replace(/^sandkasten: /, '').trim() || (error as Error).message
    throw new SandboxError('unauthenticated', message.split('\n')[0]!, {
      hint: 'See sandkasten sandbox list, or make a token yourself: sandkasten mcp token NAME.',
    })
  }
}

function ending(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of endings) process.once(signal, () => resolve())
  })
}
