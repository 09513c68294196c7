import { SandboxError } from '@sandkasten/sdk'
import { longFetch } from './http/long-fetch.ts'

export interface ClientAddress {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly directory: string
}

interface OpencodeSdk {
  createOpencodeClient(config: {
    baseUrl: string
    headers: Record<string, string>
    directory: string
    fetch: typeof longFetch
  }): unknown
}

// Not a literal, so that type checkers and bundlers do not require the package.
const name: string = '@opencode-ai/sdk/v2'

/** The client of opencode’s own SDK, with the password, the sandbox’s folder, and no time limit for prompts. */
export async function createClient<Client>({ url, headers, directory }: ClientAddress): Promise<Client> {
  const { createOpencodeClient } = await sdk()
  const baseUrl = url.replace(/\/+$/, '')
  return createOpencodeClient({ baseUrl, headers: { ...headers }, directory, fetch: longFetch }) as Client
}

async function sdk(): Promise<OpencodeSdk> {
  try {
    return (await import(/* @vite-ignore */ name)) as OpencodeSdk
  } catch (cause) {
    const { code, message } = cause as { code?: unknown; message?: unknown }
    const missing = code === 'ERR_MODULE_NOT_FOUND' && String(message).includes("'@opencode-ai/sdk'")
    throw new SandboxError(
      'sdk_missing',
      missing
        ? 'client() needs the package @opencode-ai/sdk.'
        : 'The package @opencode-ai/sdk does not load.',
      {
        cause,
        details: { missing },
        hint: missing ? 'Install it: npm install @opencode-ai/sdk@1' : 'See the cause, then reinstall it.',
      },
    )
  }
}
