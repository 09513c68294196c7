import { SandboxError } from '@sandkasten/sdk'

const mostAlternatives = 100

/**
 * Matches `*`, `**`, `?`, `[a-z]` and `{a,b}` against a name, or a path below the searched folder. Not a regular
 * expression: names come from a sandbox, and a pattern with many stars could take forever. This takes at most pattern
 * length × name length steps.
 */
export function matcher(pattern: string): (relative: string) => boolean {
  if (pattern.length > 500) throw wrong(pattern)
  const forms = alternatives(pattern).map((one) => stepsOf(one, pattern))
  return (relative) => {
    const name = relative.slice(relative.lastIndexOf('/') + 1)
    return forms.some((steps) => fits(steps, relative) || fits(steps, name))
  }
}

/** Matches one character, any number of characters (`many`), or optionally skips the next two steps (`maybe`). */
type Step =
  | { readonly kind: 'one' | 'many'; readonly takes: (char: string) => boolean }
  | { readonly kind: 'maybe' }

const any = () => true
const inName = (char: string) => char !== '/'
const slash = (char: string) => char === '/'

function stepsOf(form: string, pattern: string): Step[] {
  const parts = form.match(/\*\*\/?|\*|\?|\[[^\]]+\]|./gsu) ?? []
  return parts.flatMap((part): Step[] => {
    if (part === '**/')
      return [{ kind: 'maybe' }, { kind: 'many', takes: any }, { kind: 'one', takes: slash }]
    if (part === '**') return [{ kind: 'many', takes: any }]
    if (part === '*') return [{ kind: 'many', takes: inName }]
    if (part === '?') return [{ kind: 'one', takes: inName }]
    if (part.length > 2 && part.startsWith('[')) return [{ kind: 'one', takes: setOf(part, pattern) }]
    return [{ kind: 'one', takes: (char) => char === part }]
  })
}

function fits(steps: readonly Step[], text: string): boolean {
  let here = new Set<number>()
  reach(steps, 0, here)
  for (const char of text) {
    const next = new Set<number>()
    for (const at of here) {
      const step = steps[at]
      if (!step || step.kind === 'maybe' || !step.takes(char)) continue
      reach(steps, step.kind === 'many' ? at : at + 1, next)
    }
    here = next
    if (here.size === 0) return false
  }
  return here.has(steps.length)
}

/** Adds a step, and all steps that are reachable from it without a character. */
function reach(steps: readonly Step[], at: number, into: Set<number>): void {
  if (into.has(at)) return
  into.add(at)
  const kind = steps[at]?.kind
  if (kind === 'many' || kind === 'maybe') reach(steps, at + 1, into)
  if (kind === 'maybe') reach(steps, at + 3, into)
}

function setOf(part: string, pattern: string): (char: string) => boolean {
  const not = /^\[[!^]/.test(part)
  const ranges = [...part.slice(not ? 2 : 1, -1).matchAll(/(.)-(.)|./gsu)].map(
    ([whole, from, to]) => [from ?? whole, to ?? whole] as const,
  )
  if (ranges.length === 0 || ranges.some(([from, to]) => from > to)) throw wrong(pattern)
  return (char) => char !== '/' && ranges.some(([from, to]) => from <= char && char <= to) !== not
}

/** Expands `a{b,c}` to `ab` and `ac`. */
function alternatives(pattern: string): string[] {
  let forms = ['']
  for (const part of pattern.match(/\{[^{}]*\}|[^{]+|\{/gs) ?? []) {
    const choices = part.length > 1 && part.startsWith('{') ? part.slice(1, -1).split(',') : [part]
    forms = forms.flatMap((form) => choices.map((choice) => form + choice))
    if (forms.length > mostAlternatives) throw wrong(pattern)
  }
  return forms
}

function wrong(pattern: string): SandboxError {
  return new SandboxError('invalid_argument', `The pattern ${pattern.slice(0, 100)} is not valid.`, {
    hint: 'Use a pattern such as *.txt or src/**/*.ts.',
  })
}
