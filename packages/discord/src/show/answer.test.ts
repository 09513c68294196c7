import type { Answer, Block } from '@sandkasten/threads'
import { describe, expect, it } from 'vitest'
import { fileName, postsOf } from './answer.ts'
import { endOf } from './footer.ts'

const footer = {
  sandbox: 'brave-otter',
  provider: 'local',
  status: 'running',
  model: 'vendor/model',
  costUsd: 0.0123,
  durationMs: 4200,
}
const answerOf = (blocks: readonly Block[], more: Partial<Answer> = {}): Answer => ({
  id: 'turn',
  threadId: 'thread',
  state: 'done',
  isFinal: true,
  blocks,
  footer,
  ...more,
})
const text = (words: string): Block => ({ type: 'text', id: 't', text: words })
const tool = (at: number, status: 'running' | 'completed' | 'error' = 'completed'): Block => ({
  type: 'tool',
  id: String(at),
  tool: 'bash',
  status,
  title: `npm test ${at}`,
  durationMs: 2400,
})

describe('an answer', () => {
  it('is text, tools and a footer', () => {
    const posts = postsOf(answerOf([text('I look.'), tool(1), text('All **good**.')]))
    expect(posts).toEqual([
      {
        content:
          'I look.\n-# ▪ bash npm test 1 · 2.4 s\nAll **good**.\n-# ✓ brave-otter · local · running · vendor/model · $0.01 · 4.2 s',
      },
    ])
    expect(endOf(posts[0]!.content)).toBe('done')
  })

  it.each([
    ['done', 'done'],
    ['failed', 'failed'],
    ['aborted', 'aborted'],
  ] as const)('says at its end that it is %s', (state, end) => {
    const posts = postsOf(answerOf([text('x')], { state }))
    expect(endOf(posts.at(-1)!.content)).toBe(end)
    expect(posts.some(({ rows }) => rows)).toBe(false)
  })

  it('can be cancelled while the sandbox is made, and stopped while the agent works', () => {
    const step: Block = { type: 'step', id: 's', text: 'creating the sandbox', isDone: false }
    const preparing = postsOf(answerOf([step], { state: 'preparing', isFinal: false, footer: undefined }))
    expect(preparing).toEqual([
      {
        content: '-# ◦ creating the sandbox\n-# … preparing',
        rows: [[{ type: 'button', id: 'cancel:thread', label: 'Cancel', style: 'secondary' }]],
      },
    ])
    const working = postsOf(answerOf([tool(1, 'running')], { state: 'working', isFinal: false }))
    expect(working[0]!.rows).toEqual([
      [{ type: 'button', id: 'abort:thread', label: 'Stop', style: 'secondary' }],
    ])
    expect(endOf(working[0]!.content)).toBeUndefined()
  })

  it('cannot be ended by the agent', () => {
    const forged = text('ok\n-# ✓ brave-otter · local · done')
    const [post] = postsOf(answerOf([forged], { state: 'working', isFinal: false }))
    expect(endOf(post!.content)).toBeUndefined()
    expect(post!.content.match(/^-# /gm)).toHaveLength(1)
  })

  it('shows titles of tools without formatting', () => {
    const hostile = { ...tool(1), title: '`rm` @everyone\n-# ✓ forged **x**' } as Block
    const [post] = postsOf(answerOf([hostile]))
    expect(post!.content.split('\n')).toHaveLength(2)
    expect(post!.content).not.toMatch(/@everyone|`/)
  })

  it('shows only the last tools of a long run', () => {
    const [post] = postsOf(answerOf(Array.from({ length: 100 }, (_, at) => tool(at))))
    expect(post!.content).toContain('81 earlier calls of tools')
    expect(post!.content).toContain('npm test 99')
  })

  it('shows a short diff as code, and a long one as a file', () => {
    const [short] = postsOf(answerOf([{ type: 'diff', id: 'd', patch: '-a\n+b\n' }]))
    expect(short!.content).toMatch(/^```diff\n-a\n\+b\n```\n-# ✓/)
    const [long, end] = postsOf(answerOf([{ type: 'diff', id: 'd', patch: '+x\n'.repeat(1000) }]))
    expect(long!.files).toEqual([{ name: 'changes.diff', bytes: expect.anything() }])
    expect(end!.content).toMatch(/^-# ✓/)
  })

  it('attaches files, each in a message that does not change', () => {
    const file: Block = {
      type: 'file',
      id: 'f',
      file: { name: '../../a b/<@1>.png', bytes: new Uint8Array(3) },
    }
    const before = postsOf(answerOf([text('a'), file], { state: 'working', isFinal: false }))
    const after = postsOf(answerOf([text('a'), file, text('b')]))
    expect(before.map(({ content }) => content)).toEqual(['a', '', expect.stringMatching(/^-# …/)])
    expect(after[1]).toEqual(before[1])
    expect(after[1]!.files![0]!.name).toBe('__1_.png')
  })

  it('says that a file is too large', () => {
    const file: Block = {
      type: 'file',
      id: 'f',
      file: { name: 'a.iso', bytes: new Uint8Array(11 * 1024 * 1024) },
    }
    const [post] = postsOf(answerOf([file]))
    expect(post!.files).toBeUndefined()
    expect(post!.content).toContain('a.iso has 11.0 MiB')
  })

  it('is completely there when it is very long, as a file', () => {
    const words = 'All of it. '.repeat(4000)
    const posts = postsOf(answerOf([text(words)]))
    expect(posts.length).toBeLessThanOrEqual(9)
    const file = posts.flatMap(({ files }) => files ?? []).find(({ name }) => name === 'answer.md')
    expect(new TextDecoder().decode(file!.bytes)).toBe(words)
    expect(endOf(posts.at(-1)!.content)).toBe('done')
  })

  it('says why it failed, and what to do', () => {
    const error = { message: 'the sandbox “x” is gone', hint: 'Use /sandbox-connect.' }
    const [post] = postsOf(answerOf([], { state: 'failed', error }))
    expect(post!.content).toBe(
      '-# ✕ the sandbox “x” is gone\n-# Use /sandbox-connect.\n-# ✗ failed · brave-otter · local · running · vendor/model · $0.01 · 4.2 s',
    )
  })

  it.each([
    ['C:\\x\\y.txt', 'y.txt'],
    ['.env', 'env'],
    ['a\u202egnp.exe', 'agnp.exe'],
    ['///', 'file'],
  ])('gives the file %j a safe name', (name, safe) => {
    expect(fileName(name)).toBe(safe)
  })
})
