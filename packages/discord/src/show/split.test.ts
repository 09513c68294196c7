import { describe, expect, it } from 'vitest'
import { piecesOf } from './markdown.ts'
import { mostCharacters, split } from './split.ts'

const bare = (text: string) => text.replace(/\s|\u200b|```\w*/g, '')

describe('splitting', () => {
  const long = Array.from({ length: 900 }, (_, at) => `word${at}`).join(' ')
  const lines = Array.from({ length: 400 }, (_, at) => `line ${at}`).join('\n')

  it.each([
    ['a paragraph', long],
    ['code', `before\n\`\`\`ts\n${lines}\n\`\`\`\nafter`],
    ['one word', 'x'.repeat(5000)],
    ['characters of two units', '😀'.repeat(3000)],
    ['code without lines', `\`\`\`\n${'y'.repeat(5000)}\n\`\`\``],
    [
      'much code',
      Array.from({ length: 40 }, (_, at) => `text ${at}\n\`\`\`\n${'z'.repeat(90)}\n\`\`\``).join('\n'),
    ],
    ['code of backticks', `\`\`\`\`\n${'`'.repeat(3000)}\n\`\`\`\``],
  ])('keeps everything of %s in messages that Discord accepts', (_, text) => {
    const parts = split(piecesOf(text))
    for (const part of parts) {
      expect(part.length).toBeLessThanOrEqual(mostCharacters)
      expect(part.isWellFormed()).toBe(true)
      expect(part.split('```').length % 2, part.slice(0, 100)).toBe(1)
    }
    if (!text.includes('````')) expect(bare(parts.join(''))).toBe(bare(text))
    expect(parts.length).toBeLessThanOrEqual(Math.ceil(text.length / 900) + 1)
  })

  it('opens code again with its language', () => {
    const parts = split(piecesOf(`\`\`\`ts\n${lines}\n\`\`\``))
    expect(parts.length).toBeGreaterThan(1)
    for (const part of parts) expect(part).toMatch(/^```ts\nline[\s\S]*\n```$/)
  })

  it('does not change its beginning when a text grows', () => {
    const [first] = split(piecesOf(long))
    expect(split(piecesOf(`${long} and more`))[0]).toBe(first)
  })

  it('makes no message of an empty text', () => {
    expect(split(piecesOf(' \n\n '))).toEqual([])
  })
})
