import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { root } from '../tools.ts'
import type { Tarball } from './pack.ts'
import { version } from './version.ts'

interface Sizes {
  readonly version: string
  /** Kilobytes of each tarball and of its files. */
  readonly packages: Readonly<Record<string, { readonly packedKb: number; readonly unpackedKb: number }>>
}

const file = path.join(root, 'scripts/release/sizes.json')

/** A package may grow by this share without a decision. */
const mayGrow = 1.1

/** Prints each size beside that of the last release. A package that grew by more than 10 % needs `--accept-sizes`. */
export function compareSizes(tarballs: readonly Tarball[], accept: boolean): number {
  const last = JSON.parse(readFileSync(file, 'utf8')) as Sizes
  const now = Object.fromEntries(
    tarballs.map(({ name, bytes, unpackedBytes }) => [
      name,
      { packedKb: Math.ceil(bytes / 1000), unpackedKb: Math.ceil(unpackedBytes / 1000) },
    ]),
  )
  let grown = false
  for (const [name, { packedKb, unpackedKb }] of Object.entries(now)) {
    const before = last.packages[name]
    const isLarger = before !== undefined && packedKb > before.packedKb * mayGrow
    grown ||= isLarger
    const was = before ? `${last.version}: ${before.packedKb} kB, ${before.unpackedKb} kB` : 'new'
    console.log(
      `${isLarger ? '✗' : ' '} ${name.padEnd(34)} ${packedKb} kB, unpacked ${unpackedKb} kB (${was})`,
    )
  }
  if (accept)
    writeFileSync(file, `${JSON.stringify({ version, packages: { ...last.packages, ...now } }, null, 2)}\n`)
  else if (grown) console.error('A package grew by more than 10 %. If that is right, add --accept-sizes.')
  return grown && !accept ? 1 : 0
}

/** `sha256sum --check SHA256SUMS` verifies the tarballs. */
export function writeChecksums(tarballs: readonly Tarball[], output: string): number {
  const lines = tarballs.map(({ file }) => {
    const hash = createHash('sha256').update(readFileSync(file)).digest('hex')
    return `${hash}  ${path.basename(file)}\n`
  })
  writeFileSync(path.join(output, 'SHA256SUMS'), lines.join(''))
  console.log(lines.join('').trimEnd())
  return 0
}
