/** Derives the binding and the container's name from the file name. The class keeps its own name. */
import type { Problem } from '../problem.ts'

export interface Names {
  binding: string
  container: string
}

const BASE_NAME = /^[A-Za-z_][A-Za-z0-9_-]*$/

/**
 * `code-interpreter` gives `CODE_INTERPRETER_SANDBOX` and `code-interpreter-sandbox`; undefined for an invalid name.
 */
export function namesOf(baseName: string): Names | undefined {
  // ASCII only, checked before upper-casing: 'ß' would become a valid-looking 'SS'.
  if (!BASE_NAME.test(baseName)) return undefined
  const words = baseName.replaceAll('_', '-').toLowerCase()
  return {
    binding: `${baseName.replaceAll('-', '_').toUpperCase()}_SANDBOX`,
    container: `${words.replace(/^-+|-+$/g, '').replace(/-+/g, '-')}-sandbox`.replace(/^-/, ''),
  }
}

export function badNameProblem(file: string, baseName: string): Problem {
  const better = baseName
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9_-]+/g, '-')
    .replace(/^[^A-Za-z_]+|-+$/g, '')
  const name = better === '' ? 'shell' : better
  return {
    severity: 'error',
    code: 'bad-file-name',
    message: `“${baseName}” cannot become the name of a binding: letters a–z, digits, - and _, not a digit first`,
    place: { file },
    fix: `rename the file, for example to ${name}.sandbox.ts`,
  }
}
