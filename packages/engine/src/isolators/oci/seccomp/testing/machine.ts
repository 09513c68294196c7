/** Evaluates policies and filters, for tests. */

import type { Policy } from '../allowed-calls.ts'
import type { Program } from '../bpf.ts'
import { ALLOW, errnoAction } from '../bpf.ts'

/** Evaluates the policy directly, without compiling it. */
export function expected(policy: Policy, number: number, args: readonly number[]): number {
  const name = Object.keys(policy.numbers).find((name) => policy.numbers[name] === number)
  if (name === undefined || policy.absent.includes(name)) return errnoAction(38)
  const rule = policy.rules[name]
  if (!rule) return policy.allow.includes(name) ? ALLOW : errnoAction(1)
  const holds = rule.cases.some((checks) =>
    checks.every((check) => {
      const value = (args[check.arg]! & (check.mask ?? 0xffffffff)) >>> 0
      return check.in ? check.in.includes(value) : !check.notIn!.includes(value)
    }),
  )
  return holds ? ALLOW : errnoAction(rule.errno)
}

/** The BPF instructions that our filters use. Any other instruction, or a missing return, is an error. */
function execute(program: Program, architecture: number, number: number, args: readonly (number | bigint)[]) {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(architecture, 4)
  for (const [index, value] of args.entries())
    data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 16 + 8 * index)
  let accumulator = 0
  let at = 0
  for (let step = 1; ; step++) {
    const { code, jt, jf, k } = program[at++]!
    if (code === 0x20) accumulator = data.readUInt32LE(k)
    else if (code === 0x54) accumulator = (accumulator & k) >>> 0
    else if (code === 0x15) at += accumulator === k ? jt : jf
    else if (code === 0x35) at += accumulator >= k ? jt : jf
    else if (code === 0x25) at += accumulator > k ? jt : jf
    else if (code === 0x45) at += (accumulator & k) !== 0 ? jt : jf
    else if (code === 0x05) at += k
    else if (code === 0x06) return { action: k, step }
    else throw new Error(`instruction ${code}`)
  }
}

export const run = (...call: Parameters<typeof execute>) => execute(...call).action
export const steps = (...call: Parameters<typeof execute>) => execute(...call).step
