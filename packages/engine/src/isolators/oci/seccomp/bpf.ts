/**
 * Classic BPF for seccomp: an accumulator, absolute loads from the call's data, forward jumps, return. A program
 * consists of pieces without labels. A jump skips the piece that follows, whose length is known, so offsets are right
 * by construction.
 */

export interface Instruction {
  readonly code: number
  readonly jt: number
  readonly jf: number
  readonly k: number
}

export type Program = readonly Instruction[]

const [LOAD_WORD_ABSOLUTE, AND, RETURN, JUMP] = [0x20, 0x54, 0x06, 0x05]
const [EQUAL, AT_LEAST] = [0x15, 0x35]

export const ALLOW = 0x7fff0000
export const KILL_PROCESS = 0x80000000
export const errnoAction = (errno: number) => 0x00050000 | errno

/** Offsets into `struct seccomp_data`; both architectures are little-endian, so an argument's low half comes first. */
export const NUMBER = 0
export const ARCHITECTURE = 4
export const argument = (index: number) => 16 + 8 * index

export const load = (offset: number): Program => [{ code: LOAD_WORD_ABSOLUTE, jt: 0, jf: 0, k: offset }]
export const and = (mask: number): Program => [{ code: AND, jt: 0, jf: 0, k: mask >>> 0 }]
export const ret = (action: number): Program => [{ code: RETURN, jt: 0, jf: 0, k: action >>> 0 }]

/** `then` where the accumulator is at least `k`, otherwise `otherwise`. Neither may fall through. */
export const ifAtLeast = (k: number, then: Program, otherwise: Program) =>
  branch(AT_LEAST, k, then, otherwise)

/** `then` where the accumulator is one of `values`, otherwise `otherwise`. Neither may fall through. */
export function ifIn(values: readonly number[], then: Program, otherwise: Program): Program {
  const [first, ...rest] = values
  if (first === undefined) return otherwise
  if (rest.length === 0) return branch(EQUAL, first, then, otherwise)
  // A test that fails continues with the next one. After the last test comes the jump to `otherwise`, which a hit
  // skips.
  const tests: Instruction[] = []
  for (const [index, value] of values.entries()) {
    tests.push({ code: EQUAL, jt: byte(values.length - index), jf: 0, k: value >>> 0 })
  }
  const far: Instruction = { code: JUMP, jt: 0, jf: 0, k: then.length }
  return [...tests, far, ...then, ...otherwise]
}

function branch(code: number, k: number, then: Program, otherwise: Program): Program {
  if (otherwise.length <= 255)
    return [{ code, jt: otherwise.length, jf: 0, k: k >>> 0 }, ...otherwise, ...then]
  // Conditional jumps reach 255 instructions; the unconditional one reaches anywhere.
  return [
    { code, jt: 0, jf: 1, k: k >>> 0 },
    { code: JUMP, jt: 0, jf: 0, k: otherwise.length },
    ...otherwise,
    ...then,
  ]
}

/** `struct sock_filter[]`, little-endian. */
export function encode(program: Program): Buffer {
  if (program.length > 4096)
    throw new RangeError(`the filter has ${program.length} instructions; the kernel accepts at most 4096`)
  const bytes = Buffer.alloc(program.length * 8)
  for (const [index, { code, jt, jf, k }] of program.entries()) {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(jt, index * 8 + 2)
    bytes.writeUInt8(jf, index * 8 + 3)
    bytes.writeUInt32LE(k, index * 8 + 4)
  }
  return bytes
}

function byte(value: number): number {
  if (value < 0 || value > 255) throw new RangeError(`a jump over ${value} instructions is out of range`)
  return value
}
