import { describe, expect, it } from 'vitest'
import { onSandkasten } from './on-sandkasten.ts'

class Sandbox {
  static readonly kind = 'class'
  readonly params: Record<string, unknown>

  constructor(params: Record<string, unknown>) {
    this.params = params
  }

  static async create(params: Record<string, unknown> = {}) {
    return new Sandbox(params)
  }
}
const sdk = { Sandbox, Other: Sandbox, helper: () => 'as it is' }
const here = { url: 'http://localhost:8092/', apiKey: 'sk-key' }

describe('onSandkasten', () => {
  it('replaces the address and credentials of every call', async () => {
    const asked: string[] = []
    const fetch = async (input: unknown) => {
      asked.push(String(input))
      return new Response()
    }
    const { Sandbox: own } = onSandkasten(sdk, here)
    const { params } = await own.create({ token: 'of Vercel', ports: [3000], fetch })
    expect(params).toMatchObject({ token: 'sk-key', ports: [3000] })
    const redirected = params.fetch as typeof globalThis.fetch
    await redirected('https://vercel.com/api/v3/sandboxes?teamId=x')
    await redirected('https://blob.example.com/file')
    expect(asked).toEqual(['http://localhost:8092/v3/sandboxes?teamId=x', 'https://blob.example.com/file'])
    expect((await own.create()).params.token).toBe('sk-key')
  })

  it('leaves other exports unchanged', async () => {
    const changed = onSandkasten(sdk, here)
    expect(await changed.Sandbox.create()).toBeInstanceOf(changed.Sandbox)
    expect([changed.Sandbox.kind, changed.helper(), changed.Other]).toEqual(['class', 'as it is', Sandbox])
  })

  it('names missing options', () => {
    for (const wrong of [
      { ...here, url: 'localhost:8092' },
      { ...here, apiKey: '' },
      { ...here, url: undefined as unknown as string },
    ])
      expect(() => onSandkasten(sdk, wrong)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })
})
