import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseSync } from 'oxc-parser'
import { type Reference, root } from './rules.ts'

/** Every import and every property path of the production code in `packages`. */
export function allReferences(): { imports: Reference[]; properties: Reference[] } {
  const files = globSync('packages/*/src/**/*.ts', { cwd: root }).filter(
    (file) => !/\.(test|type-test)\.ts$|test-helper|test-kit/.test(file),
  )
  const imports: Reference[] = []
  const properties: Reference[] = []
  for (const file of files) {
    const from = file.replaceAll('\\', '/')
    const { module, program } = parseSync(file, readFileSync(path.join(root, file), 'utf8'))
    const specifiers = [
      ...module.staticImports.map((found) => found.moduleRequest.value),
      ...module.staticExports.flatMap((found) =>
        found.entries.flatMap((entry) => entry.moduleRequest?.value ?? []),
      ),
    ]
    imports.push(...specifiers.map((specifier) => ({ from, to: resolve(from, specifier) })))
    // Parsing is cheap, walking the tree is not: only the daemon has rules about properties.
    if (from.startsWith('packages/daemon/'))
      for (const to of propertyPaths(program as unknown as Node)) properties.push({ from, to })
  }
  return { imports, properties }
}

interface Node {
  readonly type: string
  readonly [field: string]: unknown
}

/** Paths such as `a.b.c`, also from `const { c } = a.b` and from `({ b: { c } })`. */
export function propertyPaths(node: Node): string[] {
  const found: string[] = []
  visit(node, found)
  return found
}

function visit(node: Node, found: string[]): void {
  if (node.type === 'MemberExpression') found.push(pathOf(node))
  if (node.type === 'VariableDeclarator' && node.init)
    patternPaths(node.id as Node, pathOf(node.init as Node), found)
  else if (node.type === 'ObjectPattern') patternPaths(node, '', found)
  for (const value of Object.values(node))
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child, found)
}

function patternPaths(pattern: Node, base: string, found: string[]): void {
  if (pattern.type !== 'ObjectPattern') return
  for (const property of pattern.properties as Node[]) {
    if (property.type !== 'Property') continue
    const path = joined(base, nameOf(property.key as Node))
    found.push(path)
    patternPaths(property.value as Node, path, found)
  }
}

function pathOf(node: Node): string {
  if (node.type === 'MemberExpression')
    return joined(pathOf(node.object as Node), node.computed ? '[]' : nameOf(node.property as Node))
  if (node.type === 'CallExpression') return pathOf(node.callee as Node)
  const inner = node.expression ?? node.argument
  return isNode(inner) ? pathOf(inner) : nameOf(node)
}

function nameOf(node: Node): string {
  if (node.type === 'PrivateIdentifier') return `#${node.name}`
  return node.type === 'ThisExpression' ? 'this' : String(node.name ?? '')
}

function joined(base: string, name: string): string {
  return base === '' ? name : `${base}.${name}`
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'
}

/** Resolves a relative import to its file. Other specifiers are unchanged. */
function resolve(from: string, specifier: string): string {
  return specifier.startsWith('.') ? path.posix.join(path.posix.dirname(from), specifier) : specifier
}
