import { describe, expect, it, vi } from 'vitest'
import type { Post } from '../show/post.ts'
import { MemoryPosts, RecordedTransport } from '../testing/record-transport.ts'
import { waitBetweenEdits } from './pace.ts'
import { Writer } from './writer.ts'

const posts = (...texts: string[]): Post[] => texts.map((content) => ({ content }))

function open(transport = new RecordedTransport(), saved = new MemoryPosts()) {
  const onGone = vi.fn()
  const writer = new Writer({ posts: saved, transport, pace: { editEveryMs: 1 }, onGone })
  return { writer, transport, saved, onGone }
}

describe('the writer', () => {
  it('leaves out states that were replaced before they were sent, and ends with the last one', async () => {
    const { writer, transport } = open()
    const states = Array.from({ length: 500 }, (_, at) => posts(`state ${at}`))
    await Promise.all(states.map((state, at) => writer.write('t', 'answer', state, at === 499)))
    expect(transport.texts).toEqual(['state 499'])
    expect(transport.calls.length).toBeLessThan(5)
  })

  it('has one request at a time in a thread, in the order in which owners began', async () => {
    const { writer, transport } = open()
    await Promise.all(
      ['a', 'b', 'c'].map((owner) => writer.write('t', owner, posts(`${owner}1`, `${owner}2`), true)),
    )
    expect(transport.texts).toEqual(['a1', 'a2', 'b1', 'b2', 'c1', 'c2'])
    expect(transport.mostInFlight).toBe(1)
  })

  it('writes to several threads at once', async () => {
    const { writer, transport } = open()
    await Promise.all(['t1', 't2', 't3'].map((thread) => writer.write(thread, thread, posts('x'), true)))
    expect(transport.mostInFlight).toBe(3)
  })

  it('edits only what differs, and deletes what is too much', async () => {
    const { writer, transport } = open()
    await writer.write('t', 'a', posts('1', '2', '3'), false)
    transport.calls.length = 0
    await writer.write('t', 'a', posts('1', 'two'), true)
    expect(transport.texts).toEqual(['1', 'two'])
    expect(transport.calls).toEqual(['edit two', 'remove p3'])
  })

  it('does not undo the last state with an earlier one that comes late', async () => {
    const { writer, transport } = open()
    const first = writer.write('t', 'a', posts('begin'), false)
    const last = writer.write('t', 'a', posts('end'), true)
    const late = writer.write('t', 'a', posts('late'), false)
    await Promise.all([first, last, late])
    expect(transport.texts).toEqual(['end'])
  })

  it('continues after a restart, and sends nothing twice', async () => {
    const { writer, transport, saved } = open()
    const file = { content: '', files: [{ name: 'a.png', bytes: new Uint8Array(3) }] }
    await writer.write('t', 'a', [...posts('1'), file], false)
    // Sent, but the process ended before it could note the id.
    await saved.reserve('a', 2)
    transport.posts.set('lost', { nonce: (await saved.list('a'))[2]!.nonce, post: { content: 'half' } })
    transport.calls.length = 0
    await open(transport, saved).writer.write('t', 'a', [...posts('1'), file, ...posts('whole')], true)
    expect(transport.texts).toEqual(['1', '', 'whole'])
    expect(transport.calls).toEqual(['edit whole'])
  })

  it('sends a post again that a user has deleted', async () => {
    const { writer, transport } = open()
    await writer.write('t', 'a', posts('1', '2'), false)
    transport.posts.delete('p1')
    await writer.write('t', 'a', posts('one', '2'), true)
    expect(transport.texts.toSorted()).toEqual(['2', 'one'])
  })

  it('opens an archived thread for the last state', async () => {
    const { writer, transport } = open()
    await writer.write('t', 'a', posts('1'), false)
    let isArchived = true
    transport.instead = (call) => {
      if (call === 'unarchive') isArchived = false
      else if (isArchived) throw new Error('archived')
    }
    await writer.write('t', 'a', posts('end'), true)
    expect(transport.texts).toEqual(['end'])
  })

  it('says that a thread is gone, and does not fail', async () => {
    const { writer, transport, onGone } = open()
    transport.instead = () => {
      throw new Error('gone-thread')
    }
    await writer.write('t', 'a', posts('1'), true)
    expect(onGone).toHaveBeenCalledExactlyOnceWith('t')
  })

  it('reports another failure to the caller, and can be called again', async () => {
    const { writer, transport } = open()
    let fails = 2
    transport.instead = () => {
      if (fails-- > 0) throw new Error('no network')
    }
    await expect(writer.write('t', 'a', posts('1', '2'), true)).rejects.toThrow('no network')
    await expect(writer.write('t', 'a', posts('1', '2'), true)).rejects.toThrow('no network')
    await writer.write('t', 'a', posts('1', '2'), true)
    expect(transport.texts).toEqual(['1', '2'])
  })

  it('edits less often when many threads are at work', () => {
    const pace = { editEveryMs: 1200, editsPerSecond: 25, typingEveryMs: 8000, typingThreads: 40 }
    expect(waitBetweenEdits(pace, 1)).toBe(1200)
    expect(waitBetweenEdits(pace, 100)).toBe(4000)
  })
})
