import type { SandboxHandle } from '@sandkasten/sdk'
import type { AgentBridge, BridgeAddress } from '../agents/request.ts'
import type { BridgeHome } from './bridge-home.ts'
import { type BridgeThread, serveBridge } from './http-server.ts'
import { startRelay } from './relay.ts'
import { BridgeTokens } from './tokens.ts'
import type { UseSandbox } from './tools.ts'

/** What agents may ask of their threads. */
export interface Bridge extends AgentBridge, AsyncDisposable {
  /** Ends all tokens of a thread: it was archived, or its sandbox was destroyed. */
  revoke(threadId: string): void
}

export interface BridgeOptions {
  readonly home: BridgeHome
  /** Told to people: the agent of this thread cannot reach the chat any more. */
  readonly onProblem?: (threadId: string, message: string) => void
}

export async function openBridge({ home, onProblem }: BridgeOptions): Promise<Bridge> {
  const tokens = new BridgeTokens()
  const threads = new Map<string, BridgeThread>()
  const server = await serveBridge((token) => {
    const threadId = tokens.threadOf(token)
    return threadId === undefined ? undefined : threads.get(threadId)
  })
  /** A new address ends the tokens of earlier ones. */
  const issue = (threadId: string, useSandbox: UseSandbox): string => {
    tokens.revokeAll(threadId)
    threads.set(threadId, { threadId, home, useSandbox })
    return tokens.make(threadId)
  }
  const revoke = (threadId: string) => {
    tokens.revokeAll(threadId)
    threads.delete(threadId)
  }
  return {
    revoke,
    async atHome(threadId, useSandbox): Promise<BridgeAddress> {
      const token = issue(threadId, useSandbox)
      const end = async () => void tokens.revoke(token)
      return { url: server.url, token, [Symbol.asyncDispose]: end }
    },
    async inSandbox(threadId, handle, directory): Promise<BridgeAddress> {
      const relay = await startRelay(handle, {
        target: server.url,
        onEnd: (reason) => onProblem?.(threadId, reason),
      })
      const token = issue(threadId, useHandle(handle, directory))
      const end = async () => {
        tokens.revoke(token)
        await relay[Symbol.asyncDispose]()
      }
      return { url: relay.url, token, [Symbol.asyncDispose]: end }
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

function useHandle(handle: SandboxHandle, directory: string): UseSandbox {
  return (work, signal) => work(handle, directory, signal)
}
