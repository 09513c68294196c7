/** Ports as the text of a label or of metadata: `3000,8080`. */
export function portsText(ports: readonly number[]): string {
  return ports.join(',')
}

/** Ignores everything that is not a port: other programs may have written the text. */
export function portsFrom(text: string | undefined): number[] {
  return (text ?? '')
    .split(',')
    .map(Number)
    .filter((port) => Number.isInteger(port) && port >= 1 && port <= 65_535)
}
