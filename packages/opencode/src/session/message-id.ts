import { randomBytes } from 'node:crypto'

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
let last = 0n

/**
 * An id in opencode’s own format: `msg_`, 48 bits of time and counter as hex digits, 14 random characters. Ids of one
 * process ascend. The bits of the time repeat after 2.2 years, as in opencode’s own ids.
 */
export function newMessageId(now: number = Date.now()): string {
  const next = BigInt(now) * 4096n
  last = next > last ? next : last + 1n
  const time = BigInt.asUintN(48, last).toString(16).padStart(12, '0')
  // 248 is a multiple of 62, so every character is equally likely.
  let random = ''
  while (random.length < 14)
    for (const byte of randomBytes(20)) if (byte < 248 && random.length < 14) random += digits[byte % 62]
  return `msg_${time}${random}`
}

export function isMessageId(id: string): boolean {
  return /^msg_[0-9a-f]{12}[0-9A-Za-z]{14}$/.test(id)
}

/** The id of a message’s only text. A repeated prompt then replaces the text instead of adding a second one. */
export function textPartId(messageId: string): string {
  return `prt_${messageId.slice('msg_'.length)}`
}
