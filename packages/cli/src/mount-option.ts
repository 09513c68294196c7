import path from 'node:path'
import { InvalidArgumentError } from 'commander'

export interface MountOption {
  source: string
  target: string
  readOnly: boolean
}

export interface OutOption {
  /** In the sandbox. */
  from: string
  /** On this machine. */
  to: string
}

/** `source:target`, `source:target:ro`, `source:target:rw`. */
export function parseMount(text: string, before: readonly MountOption[]): MountOption[] {
  if (/^(type|source|src|target|dst|destination)=/.test(text))
    throw new InvalidArgumentError('Use source:target:rw or source:target:ro, such as ./data:/data:rw.')
  const [source, target, mode, ...rest] = splitAtColons(text)
  if (!source || !target?.startsWith('/') || rest.length > 0)
    throw new InvalidArgumentError(
      `Use source:target, where target is an absolute path in the sandbox, such as ./data:/data. ${ESCAPE}`,
    )
  if (mode !== undefined && mode !== 'ro' && mode !== 'rw')
    throw new InvalidArgumentError(`Unknown mode "${mode}": use ro (read-only) or rw (writable). ${ESCAPE}`)
  return [...before, { source: path.resolve(source), target, readOnly: mode !== 'rw' }]
}

/** Docker's `-v`. Docker mounts writable by default, so a missing mode gets a note. */
export function parseVolume(text: string, before: readonly MountOption[]): MountOption[] {
  const mounts = parseMount(text, before)
  if (splitAtColons(text).length === 2)
    console.error(
      `sandkasten: ${text} is mounted read-only; write ${text}:rw to let the sandbox write there.`,
    )
  return mounts
}

export function parseOut(text: string, before: readonly OutOption[]): OutOption[] {
  const [from, to = '.', ...rest] = splitAtColons(text)
  if (!from || !to || rest.length > 0)
    throw new InvalidArgumentError(
      `Use a path in the sandbox and an optional destination: result.txt, or /workspace/dist:./dist. ${ESCAPE}`,
    )
  return [...before, { from, to: to.endsWith('/') ? `${path.resolve(to)}/` : path.resolve(to) }]
}

const ESCAPE = 'Write a colon that is part of a path as \\:'

/** Splits at colons; `\:` is a literal colon. */
function splitAtColons(text: string): string[] {
  return text.split(/(?<!\\):/).map((part) => part.replaceAll('\\:', ':'))
}
