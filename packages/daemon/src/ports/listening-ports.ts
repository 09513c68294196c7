/** Ports of IPv4 and IPv6 on which something listens, from `/proc/net/tcp` and `/proc/net/tcp6`. */
export function listeningPorts(tables: string): number[] {
  const ports = new Set<number>()
  for (const line of tables.split('\n')) {
    const match = /^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A /.exec(line)
    if (match) ports.add(Number.parseInt(match[1]!, 16))
  }
  return [...ports].sort((a, b) => a - b)
}
