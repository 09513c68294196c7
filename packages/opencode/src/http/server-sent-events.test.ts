import { expect, it } from 'vitest'
import { serverSentEvents } from './server-sent-events.ts'

async function read(pieces: Iterable<string>): Promise<unknown[]> {
  const encoder = new TextEncoder()
  const left = pieces[Symbol.iterator]()
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { done, value } = left.next()
      if (done) controller.close()
      else controller.enqueue(encoder.encode(value))
    },
  })
  const values: unknown[] = []
  for await (const value of serverSentEvents(new Response(body))) values.push(value)
  return values
}

it('reads events however they are cut', async () => {
  const text =
    'data: {"a":1}\n\n: comment\n\nevent: x\r\ndata: {"b":\r\ndata: 2}\r\n\r\ndata: 3\n\ndata: {"c"\n\n'
  const wanted = [{ a: 1 }, { b: 2 }]
  expect(await read([text])).toEqual(wanted)
  expect(await read(text)).toEqual(wanted)
})

it('takes an event of many pieces in linear time', async () => {
  const data = JSON.stringify({ long: 'y'.repeat(500_000) })
  expect(await read(`data: ${data}\n\n`)).toHaveLength(1)
})

it('ends at an event that is too long, also if it has many lines', async () => {
  function* endless(line: string) {
    for (;;) yield line
  }
  for (const line of ['x'.repeat(100_000), 'data: x\n'.repeat(10_000)])
    await expect(read(endless(line))).rejects.toMatchObject({ code: 'too_large' })
})
