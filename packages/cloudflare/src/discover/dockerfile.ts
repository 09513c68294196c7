/**
 * Finds the `cloudflare/sandbox` image that a Dockerfile builds on, to detect a version mismatch with the installed
 * SDK.
 */
import { readFileSync } from 'node:fs'

export interface SandboxBase {
  tag: string
  line: number
}

/** Every `FROM …cloudflare/sandbox:<tag>`, with the defaults of `ARG` substituted. */
export function sandboxBases(path: string): SandboxBase[] {
  const args = new Map<string, string>()
  const bases: SandboxBase[] = []
  for (const [index, line] of readFileSync(path, 'utf8').split(/\r?\n/).entries()) {
    const arg = /^\s*ARG\s+(\w+)=["']?([^\s"']*)/i.exec(line)
    if (arg) args.set(arg[1]!, arg[2]!)
    const from = /^\s*FROM\s+(?:--\S+\s+)*(\S+)/i.exec(line)
    const image = from?.[1]?.replace(
      /\$\{?(\w+)(?::-([^}]*))?\}?/g,
      (_, name, spare) => args.get(name) ?? spare ?? '',
    )
    const tag = image && sandboxTag(image)
    if (tag) bases.push({ tag, line: index + 1 })
  }
  return bases
}

/** The tag of a reference to the official image, or undefined for any other image. */
export function sandboxTag(image: string): string | undefined {
  return /^(?:(?:registry-1\.)?docker\.io\/)?cloudflare\/sandbox:([^@\s]+)/.exec(image)?.[1]
}

/** `0.8.11-python` and `0.8.11` belong to version 0.8.11; a pre-release version is compared as a whole. */
export function isTagOf(tag: string, version: string): boolean {
  return tag === version || tag.startsWith(`${version}-`)
}
