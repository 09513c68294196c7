import { describe, expect, it } from 'vitest'
import { Lines } from './line-splitter.ts'

const bytes = (text: string) => Buffer.from(text)

describe('lines of output', () => {
  it('are complete and without line ends, wherever chunks were split', () => {
    const text = bytes('aä\r\n\nlast')
    for (let cut = 0; cut <= text.length; cut += 1) {
      const lines = new Lines()
      const all = [...lines.push(text.subarray(0, cut)), ...lines.push(text.subarray(cut)), ...lines.end()]
      expect(all).toEqual(['aä', '\n', 'last'])
    }
  })

  it('without an end are split at a maximum length', () => {
    const lines = new Lines()
    const cut = lines.push(Buffer.alloc(200_000, 'x'))
    expect(cut.map((line) => line.length)).toEqual([65_536, 65_536, 65_536])
    expect(lines.end()).toEqual(['x'.repeat(200_000 - 3 * 65_536)])
  })
})
