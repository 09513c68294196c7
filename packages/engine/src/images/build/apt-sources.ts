import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'

/**
 * The apt sources of this machine's own distribution. Other repositories may have other releases of the same
 * packages, so they are left out. A build uses the mirror or offline copy that the machine already has, and our code
 * names no server.
 */
export interface AptSources {
  readonly suite: string
  /** The content of apt's two kinds of source files. Empty if the machine has no source of that kind. */
  readonly list: string
  readonly sources: string
}

export function aptSources(root = '/'): AptSources {
  const suite = /^VERSION_CODENAME="?([a-z]+)"?$/m.exec(textOf(join(root, 'etc/os-release')))?.[1]
  const folder = join(root, 'etc/apt/sources.list.d')
  const names = existsSync(folder) ? readdirSync(folder).sort() : []
  const files = (ending: string) =>
    names.filter((name) => name.endsWith(ending)).map((name) => textOf(join(folder, name)))
  if (suite !== undefined) {
    const wanted = ['', '-updates', '-security'].map((ending) => suite + ending)
    const lines = [textOf(join(root, 'etc/apt/sources.list')), ...files('.list')].join('\n').split('\n')
    const list = lines.filter((line) => wanted.includes(suiteOf(line) ?? '')).join('\n')
    const stanzas = files('.sources').flatMap((text) => text.split(/\n[ \t]*\n/))
    const sources = stanzas.flatMap((stanza) => narrowed(stanza, wanted)).join('\n\n')
    if (list !== '' || sources !== '') return { suite, list, sources }
  }
  throw new SandboxError(
    'unsupported',
    'This machine has no apt sources of its own release to build an image from.',
    {
      hint: 'Build on Debian or Ubuntu; elsewhere build the Dockerfile and import it: sandkasten image import docker-archive:/path',
    },
  )
}

/** `deb [options] uri suite component…` */
function suiteOf(line: string): string | undefined {
  return /^\s*deb\s+(?:\[[^\]]*\]\s+)?\S+\s+([^\s/]+)\s/.exec(line)?.[1]
}

/** The stanza with only the wanted suites. Undefined if it has none of them. */
function narrowed(stanza: string, wanted: readonly string[]): string[] {
  const text = stanza
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n')
  if (/^Enabled:\s*(no|false|0)/im.test(text) || !/^Types:.*\bdeb\b(?!-)/im.test(text)) return []
  const suites = /^Suites:(.*)$/im.exec(text)?.[1]?.trim().split(/\s+/) ?? []
  const kept = suites.filter((suite) => wanted.includes(suite))
  if (kept.length === 0) return []
  const types = text.replace(/^Types:.*$/im, 'Types: deb')
  return [types.replace(/^Suites:.*$/im, `Suites: ${kept.join(' ')}`).trim()]
}

function textOf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}
