import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { buildRunner } from './build-runner.ts'

/** Program headers, entries of the dynamic section and their flags: see elf(5). */
const [PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO] = [2, 3, 0x6474e551, 0x6474e552]
const [DT_TEXTREL, DT_FLAGS, DT_FLAGS_1] = [22n, 30n, 0x6ffffffbn]
const [ET_DYN, PF_X, DF_BIND_NOW, DF_1_PIE] = [3, 1, 8n, 0x8000000n]

it('the runner is static, position independent, and has no writable executable memory', async () => {
  const elf = readFileSync(process.env.SANDKASTEN_RUNNER ?? (await buildRunner()))
  expect(elf.subarray(0, 5).toString('latin1')).toBe('\x7fELF\x02')
  expect(elf.readUInt16LE(16), 'position-independent').toBe(ET_DYN)
  const headers = programHeaders(elf)
  const find = (type: number) => headers.find((header) => header.type === type)
  expect(find(PT_INTERP), 'no loader').toBeUndefined()
  expect(find(PT_GNU_STACK)!.flags & PF_X, 'stack').toBe(0)
  for (const { flags } of headers) expect(flags & 3, 'not both written and executed').not.toBe(3)
  expect(find(PT_GNU_RELRO), 'relocations read-only').toBeDefined()
  const dynamic = dynamicEntries(elf, find(PT_DYNAMIC)!)
  expect(dynamic.get(DT_FLAGS)! & DF_BIND_NOW, 'all of them').toBe(DF_BIND_NOW)
  expect(dynamic.get(DT_FLAGS_1)! & DF_1_PIE).toBe(DF_1_PIE)
  expect(dynamic.has(DT_TEXTREL)).toBe(false)
})

interface Header {
  readonly type: number
  readonly flags: number
  readonly offset: number
  readonly size: number
}

function programHeaders(elf: Buffer): Header[] {
  const [start, size, count] = [Number(elf.readBigUInt64LE(32)), elf.readUInt16LE(54), elf.readUInt16LE(56)]
  return Array.from({ length: count }, (_, index) => {
    const at = start + index * size
    return {
      type: elf.readUInt32LE(at),
      flags: elf.readUInt32LE(at + 4),
      offset: Number(elf.readBigUInt64LE(at + 8)),
      size: Number(elf.readBigUInt64LE(at + 32)),
    }
  })
}

function dynamicEntries(elf: Buffer, { offset, size }: Header): Map<bigint, bigint> {
  const entries = Array.from({ length: size / 16 }, (_, index) => offset + index * 16)
  return new Map(entries.map((at) => [elf.readBigUInt64LE(at), elf.readBigUInt64LE(at + 8)]))
}
