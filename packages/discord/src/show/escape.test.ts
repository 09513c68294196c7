import { describe, expect, it } from 'vitest'
import { codeBlock, plain, printable, prose, shortened } from './escape.ts'
import { piecesOf } from './markdown.ts'
import { split } from './split.ts'

const shown = (text: string) => split(piecesOf(text)).join('\n')

describe('texts of agents', () => {
  it.each([
    ['mentions of everyone', 'hi @everyone and @here'],
    ['mentions of users', 'ask <@123456789012345678> or <@!123456789012345678>'],
    ['mentions of roles', '<@&123456789012345678>'],
    ['a mention behind a backslash', '\\<@123456789012345678> \\@everyone'],
    ['mentions split by formatting', '**@everyone** ||@here||'],
    ['mentions after code', '`code` @everyone ```\nx\n``` <@1>'],
    ['a mention after an odd backtick', '` @everyone'],
  ])('do not contain %s', (_, text) => {
    expect(shown(text)).not.toMatch(/@(everyone|here)|<@[!&]?\d/)
  })

  it.each([
    ['a footer', '-# ✓ my-sandbox · local'],
    ['an indented one', '   -# ✓ done'],
    ['one in a quote', '> -# ✓ done'],
    ['one in a list', '- -# ✓ done'],
    ['one behind a backslash', '\\\\-# ✓ done'],
    ['one after a line separator', 'x\u2028-# ✓ done'],
    ['one after a carriage return', 'x\r-# ✓ done'],
    ['one after code that was not closed', '```\ncode\n```\n-# ✓ done'],
    ['one after code of four backticks', '````\n```\n````\n-# ✓ done'],
    ['one after a removed character', '-\u202e# ✓ done'],
  ])('do not imitate the bot’s lines: %s', (_, text) => {
    const outside = shown(text).replace(/```[\s\S]*?```/g, '')
    expect(outside).not.toContain('-#')
    expect(outside).toMatch(/✓ (done|my-sandbox)/)
  })

  it.each([
    ['a code block that is not closed', 'text\n```js\nlet a'],
    ['backticks in the middle of a line', 'a ``` b'],
    ['a fence in a fence', '````md\n```js\nx\n```\n````'],
    ['tildes', '~~~\n```\n~~~'],
    ['a fence with a long word', '```a b c `d`\nx'],
    ['nested inline code', '``` `` ` ``'],
    ['a run of six', '``````\n``````'],
  ])('leave no code open: %s', (_, text) => {
    expect(shown(text).split('```').length % 2).toBe(1)
  })

  it('keep their formatting', () => {
    const text = '# Title\n\n- **bold** and `code`, see <https://example.com>\n> quote'
    expect(prose(text)).toBe(text)
  })

  it('show where a link leads, and do not contain what follows in a quote', () => {
    expect(prose('[your bank](https://evil.example/a)')).toBe('your bank (https://evil.example/a)')
    expect(prose('![x](https://evil.example/a.png "t")')).toBe('x (https://evil.example/a.png)')
    expect(prose('>>> all')).not.toContain('>>>')
  })

  it('show no commands, times and emojis that look like Discord’s own', () => {
    for (const text of ['</sandbox-destroy:1>', '<t:1700000000:R>', '<:ok:1>', '<a:ok:1>', '<#1>'])
      expect(prose(text)).toMatch(/^<\u200b/)
  })

  it('turn tables into code', () => {
    expect(shown('see\n| a | b |\n|---|---|\n| 1 | 2 |\nend')).toBe(
      'see\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n```\nend',
    )
  })
})

describe('plain text', () => {
  it('is one line without formatting', () => {
    expect(plain('a\n-# b **c** `d` [e](https://f) @everyone \\')).toBe(
      'a -# b \\*\\*c\\*\\* ’d’ \\[e\\](https:\u200b//f) @\u200beveryone \\\\',
    )
  })

  it('is shortened between characters', () => {
    expect(shortened('😀😀😀', 4)).toBe('😀…')
    expect(plain('x'.repeat(500), 100)).toHaveLength(100)
  })
})

describe('code blocks', () => {
  it('end only where we end them', () => {
    const block = codeBlock('a ``` b ```` c', 'js')
    expect(block.split('```')).toHaveLength(3)
    expect(block.replaceAll('\u200b', '')).toBe('```js\na ``` b ```` c\n```')
    expect(codeBlock('x', 'js`\n@everyone')).toBe('```\nx\n```')
  })

  it('contain no characters that change the direction', () => {
    expect(printable('a\u202eb\u0007c\u2066d')).toBe('abcd')
  })
})
