import { SandboxError } from '@sandkasten/sdk'

/** `*`, `**`, `?`, `[a-z]` and `{a,b}`, for a name or for a path below the folder that is searched. */
export function matcher(pattern: string): (relative: string) => boolean {
  if (pattern.length > 500) throw wrong(pattern)
  let whole: RegExp
  try {
    whole = new RegExp(`^${translated(pattern)}$`, 's')
  } catch {
    throw wrong(pattern)
  }
  return (relative) => whole.test(relative) || whole.test(relative.slice(relative.lastIndexOf('/') + 1))
}

function translated(pattern: string): string {
  const parts = pattern.match(/\*\*\/?|\*|\?|\[[^\]]*\]|\{[^{}]*\}|[^*?[{]|[[{]/gs) ?? []
  return parts
    .map((part) => {
      if (part === '**/') return '(?:.*/)?'
      if (part === '**') return '.*'
      if (part === '*') return '[^/]*'
      if (part === '?') return '[^/]'
      if (part.length > 1 && part.startsWith('['))
        return `[${part.slice(1, -1).replace(/^!/, '^').replaceAll('\\', '\\\\')}]`
      if (part.length > 1 && part.startsWith('{'))
        return `(?:${part.slice(1, -1).split(',').map(translated).join('|')})`
      return part.replace(/[\\^$.|+()[\]{}]/g, '\\$&')
    })
    .join('')
}

function wrong(pattern: string): SandboxError {
  return new SandboxError('invalid_argument', `The pattern ${pattern.slice(0, 100)} is not understood.`, {
    hint: 'Use such as *.txt or src/**/*.ts.',
  })
}
