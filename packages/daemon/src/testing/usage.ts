import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** Open descriptors of this process, and how many of them are listening TCP sockets. Linux only. */
export function descriptors(): { open: number; listening: number } {
  const rows = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'utf8').split('\n'))
  const inodes = new Set(
    rows.map((row) => row.trim().split(/\s+/)).flatMap((columns) => (columns[3] === '0A' ? columns[9]! : [])),
  )
  const names = readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return []
    }
  })
  const listening = names.filter((name) => inodes.has(/^socket:\[(\d+)\]$/.exec(name)?.[1] ?? ''))
  return { open: names.length, listening: listening.length }
}
