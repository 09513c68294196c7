import { SandboxError } from '@sandkasten/sdk'

const timeLimitMs = 5_000
const maxBytes = 256 * 1024

/** Reads JSON from a URL: no redirects, at most 256 KiB, within 5 seconds. */
export async function fetchJson(url: string, ending: AbortSignal): Promise<unknown> {
  const signal = AbortSignal.any([ending, AbortSignal.timeout(timeLimitMs)])
  const response = await fetch(url, {
    signal,
    // A redirect could lead to an address that the configuration would refuse.
    redirect: 'error',
    headers: { accept: 'application/jwk-set+json, application/json' },
  })
  try {
    if (response.status !== 200) throw unusable(`status ${response.status}`)
    return JSON.parse(await textOf(response))
  } finally {
    await response.body?.cancel().catch(() => {})
  }
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  // A reader, because leaving a `for await` early waits for the rest of a hanging response.
  const reader = response.body?.getReader()
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true }
      if (done || !value) return Buffer.concat(chunks).toString()
      bytes += value.length
      if (bytes > maxBytes) throw unusable(`more than ${maxBytes} bytes`)
      chunks.push(value)
    }
  } finally {
    void reader?.cancel().catch(() => {})
    reader?.releaseLock()
  }
}

function unusable(reason: string): SandboxError {
  return new SandboxError('unavailable', `The key set cannot be used: ${reason}.`)
}
