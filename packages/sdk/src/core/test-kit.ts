import { spawn } from 'node:child_process'
import { guestError } from '../shared/guest/errors.ts'
import { framed, TextStream } from '../shared/guest/framed.ts'
import { linesInEnv } from '../shared/guest/lines.ts'
import type { GuestCall, GuestLink, GuestStream, Word } from '../shared/guest/link.ts'
import { agentName, agentScript, framedLine, plainLine } from '../shared/guest/place.ts'
import { GuestReader } from '../shared/guest/reader.ts'

/** The real agent on this machine, as a transport with streams, or one with pages. */
export function localLink(id: string, kind: 'stream' | 'page'): GuestLink {
  const facts = { provider: 'test', sandboxId: id }
  const run = (line: string, nonce: string, verb: string, words: readonly Word[], call: GuestCall) =>
    spawn('/bin/sh', ['-c', line, agentName, nonce, verb, ...words.map(String)], {
      stdio: [call.stdin ? 'pipe' : 'ignore', 'pipe', 'ignore'],
      env: { PATH: process.env.PATH, SANDKASTEN_AGENT: agentScript, ...linesInEnv(call.input) },
    })
  const text = async (verb: string, words: readonly Word[], call: GuestCall) => {
    const chunks: Buffer[] = []
    for await (const chunk of run(framedLine, 'nonce', verb, words, call).stdout!) chunks.push(chunk)
    return framed(Buffer.concat(chunks).toString(), 'nonce')!
  }
  return {
    ...facts,
    place: 'here',
    id,
    start: '-',
    ...(kind === 'page' ? { page: { waitMs: 2000, bytes: 1024 * 1024 } } : {}),
    ask: async (verb, words, call) => {
      const { text: answer, code } = await text(verb, words, call)
      if (code !== 0) throw guestError(code, facts)
      return answer
    },
    open: async (verb, words, call) => {
      if (kind === 'page') return new TextStream(await text(verb, words, call), facts)
      return streamOf(run(plainLine, '-', verb, words, call), facts)
    },
  }
}

function streamOf(
  child: ReturnType<typeof spawn>,
  facts: { provider: string; sandboxId: string },
): GuestStream {
  const chunks = child.stdout![Symbol.asyncIterator]()
  const reader = new GuestReader('test', async () => {
    const { done, value } = await chunks.next()
    return done ? undefined : value
  })
  const closed = new Promise<number | undefined>((resolve) =>
    child.once('close', (code) => resolve(code ?? undefined)),
  )
  const problem = async () => guestError(await closed, facts)
  return {
    line: () => reader.line(64 * 1024),
    bytes: async (count) => (await reader.bytes(count)) ?? Promise.reject(await problem()),
    problem,
    close: () => void child.kill(),
    discard: async () => {
      while (await reader.chunk());
    },
    write: (data) =>
      new Promise((resolve, reject) =>
        child.stdin!.write(data, (error) => (error ? reject(error) : resolve())),
      ),
    endInput: async () => {
      child.stdin!.end()
      await closed
    },
  }
}
