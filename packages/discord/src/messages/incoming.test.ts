import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { attachmentsOf } from './incoming.ts'

async function load(url: string, size: number): Promise<number> {
  const [file] = attachmentsOf({ files: [{ name: 'a.txt', size, url }] })
  let count = 0
  for await (const chunk of await file!.load()) count += chunk.length
  return count
}

it('a file that cannot be loaded is an error that the user understands', async () => {
  const server = createServer((request, response) => {
    if (request.url === '/gone') response.writeHead(404).end()
    else if (request.url === '/cut') {
      response.writeHead(200, { 'content-length': '100' })
      response.write('abc')
      setTimeout(() => response.destroy(), 20)
    } else response.end('abc')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const at = `http://127.0.0.1:${port}`
  expect(await load(`${at}/a.txt`, 3)).toBe(3)
  await expect(load(`${at}/gone`, 3)).rejects.toMatchObject({ code: 'unavailable' })
  await expect(load(`${at}/cut`, 100)).rejects.toMatchObject({ code: 'unavailable' })
  await expect(load(`${at}/a.txt`, 2)).rejects.toMatchObject({ code: 'too_large' })
  await expect(load('http://127.0.0.1:1/a.txt', 3)).rejects.toMatchObject({
    code: 'unavailable',
    message: 'The attachment could not be loaded from Discord.',
  })
})
