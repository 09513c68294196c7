/**
 * `npm run api`: writes the public API of each package into `api/<package>.d.ts`. A test compares these files with the
 * source, so every change of the public API shows up in a diff.
 *
 * A report lists the exports of each entry, then every declaration of the package that they reach, without comments.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type ParseResult, parseSync } from 'oxc-parser'
import { type Package, packages } from './packages.ts'
import { root, run } from './tools.ts'

/** Packages with declarations. */
export const documented = packages.filter(({ manifest }) => manifest.exports !== undefined)

export function reportFile({ name }: Package): string {
  return path.join(root, 'api', `${name}.d.ts`)
}

export async function apiReport(one: Package): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-api-'))
  try {
    const config = path.join(one.folder, 'tsconfig.build.json')
    const options = ['--emitDeclarationOnly', '--outDir', folder, '--removeComments', '--customConditions']
    const code = await run('tsc', ['-p', config, ...options, 'sandkasten-source'])
    if (code !== 0) throw new Error(`tsc could not emit the declarations of ${one.name}.`)
    return new Report(one, folder).text()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Where a name is declared. A name of another package has no file. */
interface Place {
  readonly file: string
  readonly name: string
}

class Report {
  readonly #package: Package
  readonly #folder: string
  readonly #modules = new Map<string, Module>()

  constructor(one: Package, folder: string) {
    this.#package = one
    this.#folder = folder
  }

  text(): string {
    const reached = new Map<string, Place>()
    const visit = (place: Place): void => {
      const key = `${place.name} ${place.file}`
      if (reached.has(key)) return
      reached.set(key, place)
      const module = this.#module(place.file)
      for (const name of module.mentioned(place.name)) {
        const found = this.#resolve(place.file, name)
        if (found) visit(found)
      }
    }
    const entries = this.#entries().map(([entry, file]) => {
      const names = [...this.#exportsOf(file)].sort(([a], [b]) => (a < b ? -1 : 1))
      for (const [, place] of names) if (place) visit(place)
      return `// ${entry}\n${names.map(([name]) => `//   ${name}\n`).join('')}`
    })
    const declarations = [...reached.values()]
      .sort((a, b) => (a.name === b.name ? (a.file < b.file ? -1 : 1) : a.name < b.name ? -1 : 1))
      .map((place) => this.#module(place.file).declaration(place.name))
    return `${entries.join('\n')}\n${declarations.join('\n\n')}\n`
  }

  #entries(): Array<[string, string]> {
    const { name, exports = {} } = this.#package.manifest
    return Object.entries(exports).flatMap(([entry, target]) => {
      if (typeof target === 'string') return []
      const file = target.types!.replace('./dist/', '')
      return [[path.posix.join(name, entry), path.join(this.#folder, file)] as [string, string]]
    })
  }

  /** Exported names and their declarations; undefined for names of other packages. */
  #exportsOf(file: string): Map<string, Place | undefined> {
    const found = new Map<string, Place | undefined>()
    for (const { name, from, source } of this.#module(file).exports) {
      const target = source === undefined ? file : this.#fileOf(file, source)
      if (name !== undefined) {
        const isLocal = source === undefined
        if (isLocal) found.set(name, this.#resolve(file, from!))
        else found.set(name, target === undefined ? undefined : this.#exportsOf(target).get(from!))
      } else if (target) for (const [other, place] of this.#exportsOf(target)) found.set(other, place)
      else found.set(`* from ${source}`, undefined)
    }
    return found
  }

  #resolve(file: string, name: string): Place | undefined {
    const module = this.#module(file)
    if (module.declares(name)) return { file, name }
    const imported = module.imports.get(name)
    const target = imported && this.#fileOf(file, imported.source)
    return target ? this.#exportsOf(target).get(imported.name) : undefined
  }

  #fileOf(from: string, source: string): string | undefined {
    if (!source.startsWith('.')) return undefined
    const file = path.resolve(path.dirname(from), source.replace(/\.[jt]s$/, '.d.ts'))
    return existsSync(file) ? file : undefined
  }

  #module(file: string): Module {
    const known = this.#modules.get(file) ?? new Module(file)
    this.#modules.set(file, known)
    return known
  }
}

interface Export {
  /** Undefined for `export * from`. */
  readonly name?: string
  readonly from?: string
  readonly source?: string
}

/** One declaration file. */
class Module {
  readonly imports = new Map<string, { source: string; name: string }>()
  readonly exports: Export[] = []
  readonly #text: string
  readonly #declarations = new Map<string, string[]>()

  constructor(file: string) {
    this.#text = readFileSync(file, 'utf8')
    const { program, module } = parseSync(file, this.#text)
    for (const { entries, moduleRequest } of module.staticImports)
      for (const { localName, importName } of entries)
        this.imports.set(localName.value, { source: moduleRequest.value, name: importName.name ?? 'default' })
    for (const { entries } of module.staticExports)
      for (const { exportName, importName, localName, moduleRequest } of entries) {
        const name = exportName.kind === 'None' ? undefined : (exportName.name ?? 'default')
        const from = importName.name ?? localName.name ?? name
        this.exports.push({ name, from: from ?? undefined, source: moduleRequest?.value })
      }
    for (const statement of program.body) this.#read(statement)
  }

  declares(name: string): boolean {
    return this.#declarations.has(name)
  }

  declaration(name: string): string {
    return this.#declarations.get(name)!.join('\n')
  }

  /** Words in a declaration that may refer to other declarations. A superset is enough. */
  mentioned(name: string): Set<string> {
    const words = this.declaration(name).match(/[A-Za-z_$][\w$]*/g) ?? []
    return new Set(words.filter((word) => word !== name && (this.declares(word) || this.imports.has(word))))
  }

  #read(statement: ParseResult['program']['body'][number]): void {
    const inner = 'declaration' in statement && statement.declaration ? statement.declaration : statement
    // TypeScript writes private members into declarations, as names without types.
    const text = this.#text.slice(statement.start, statement.end).replace(/^\s+(private|#private).*\n/gm, '')
    const add = (name: string) =>
      this.#declarations.set(name, [...(this.#declarations.get(name) ?? []), text])
    if (inner.type === 'VariableDeclaration')
      for (const { id } of inner.declarations) if (id.type === 'Identifier') add(id.name)
    if ('id' in inner && inner.id?.type === 'Identifier') add(inner.id.name)
  }
}

if (import.meta.main)
  for (const one of documented) {
    writeFileSync(reportFile(one), await apiReport(one))
    console.log(path.relative(root, reportFile(one)))
  }
