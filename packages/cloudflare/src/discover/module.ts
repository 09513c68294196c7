/**
 * A parsed TypeScript file and an index of its top level: imports, classes, constants and exports. Later stages use
 * this index and never the text, so a class inside a comment or a string is not seen, and an alias is another key of
 * a map.
 */
import { readFileSync } from 'node:fs'
import type { Class, Directive, Expression, ModuleExportName, Program, Statement } from 'oxc-parser'
import { parseSync } from 'oxc-parser'
import { posixRelative } from '../paths.ts'
import { CloudflareSyncError, type Place, type Problem, placeAt } from '../problem.ts'

export interface Import {
  source: string
  /** The name in the other module; `*` for a namespace, `default` for a default import. */
  imported: string
  typeOnly: boolean
  start: number
}

export interface ExportedName {
  local: string
  source?: string
  start: number
}

export interface SourceModule {
  path: string
  file: string
  text: string
  program: Program
  imports: Map<string, Import>
  classes: Map<string, Class>
  constants: Map<string, Expression>
  exports: Map<string, ExportedName>
  stars: string[]
  defaults: { start: number; expression?: Expression | Class; name?: ExportedName }[]
}

export function readModule(path: string, root: string): SourceModule {
  const text = readFileSync(path, 'utf8')
  return indexModule(path, posixRelative(root, path), text)
}

export function indexModule(path: string, file: string, text: string): SourceModule {
  const { program, errors } = parseSync(path, text, { sourceType: 'module' })
  const found: SourceModule = {
    path,
    file,
    text,
    program,
    imports: new Map(),
    classes: new Map(),
    constants: new Map(),
    exports: new Map(),
    stars: [],
    defaults: [],
  }
  const first = errors.find((error) => error.severity === 'Error')
  if (first) fail(found, first.labels[0]?.start ?? 0, 'syntax', `syntax error: ${first.message}`)
  for (const statement of program.body) index(found, statement)
  return found
}

export function placeIn(module: SourceModule, start: number): Place {
  return placeAt(module.file, module.text, start)
}

export function fail(
  module: SourceModule,
  start: number,
  code: string,
  message: string,
  fix?: string,
): never {
  const problem: Problem = { severity: 'error', code, message, place: placeIn(module, start) }
  if (fix) problem.fix = fix
  throw new CloudflareSyncError([problem])
}

function index(found: SourceModule, statement: Statement | Directive): void {
  switch (statement.type) {
    case 'ImportDeclaration':
      for (const specifier of statement.specifiers) {
        const imported =
          specifier.type === 'ImportSpecifier'
            ? exportName(specifier.imported)
            : specifier.type === 'ImportDefaultSpecifier'
              ? 'default'
              : '*'
        const kind = specifier.type === 'ImportSpecifier' ? specifier.importKind : 'value'
        const typeOnly = statement.importKind === 'type' || kind === 'type'
        const source = statement.source.value
        found.imports.set(specifier.local.name, { source, imported, typeOnly, start: specifier.start })
      }
      return
    case 'ClassDeclaration':
      if (statement.id && !statement.declare) found.classes.set(statement.id.name, statement)
      return
    case 'VariableDeclaration':
      if (statement.kind !== 'const') return
      for (const { id, init } of statement.declarations) {
        if (id.type === 'Identifier' && init) found.constants.set(id.name, init)
      }
      return
    case 'ExportNamedDeclaration':
      if (statement.exportKind === 'type') return
      if (statement.declaration) {
        index(found, statement.declaration)
        for (const name of declaredNames(statement.declaration)) {
          found.exports.set(name, { local: name, start: statement.start })
        }
      }
      for (const specifier of statement.specifiers) {
        if (specifier.exportKind === 'type') continue
        const name: ExportedName = { local: exportName(specifier.local), start: specifier.start }
        if (statement.source) name.source = statement.source.value
        const exported = exportName(specifier.exported)
        if (exported === 'default') found.defaults.push({ start: specifier.start, name })
        found.exports.set(exported, name)
      }
      return
    case 'ExportAllDeclaration':
      if (statement.exported) {
        const name = { local: '*', source: statement.source.value, start: statement.start }
        found.exports.set(exportName(statement.exported), name)
      } else if (statement.exportKind !== 'type') found.stars.push(statement.source.value)
      return
    case 'ExportDefaultDeclaration': {
      const { declaration } = statement
      if (declaration.type === 'ClassDeclaration' && declaration.id) {
        found.classes.set(declaration.id.name, declaration)
      }
      found.defaults.push({ start: statement.start, expression: declaration as Expression | Class })
    }
  }
}

function exportName(name: ModuleExportName): string {
  return name.type === 'Literal' ? name.value : name.name
}

function declaredNames(declaration: Statement): string[] {
  if (declaration.type === 'VariableDeclaration') {
    return declaration.declarations.flatMap(({ id }) => (id.type === 'Identifier' ? [id.name] : []))
  }
  if (
    (declaration.type === 'ClassDeclaration' || declaration.type === 'FunctionDeclaration') &&
    declaration.id
  ) {
    return [declaration.id.name]
  }
  return []
}
