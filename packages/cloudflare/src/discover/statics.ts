/**
 * The static fields that configure a sandbox, of the exported class and its base classes, because JavaScript inherits
 * statics. Other classes in the file are ignored. A field without a constant value is an error: a default would
 * deploy something that the source does not say.
 */
import type { ClassElement, Expression } from 'oxc-parser'
import { Visitor } from 'oxc-parser'
import { nearest } from '../paths.ts'
import type { Place, Problem } from '../problem.ts'
import type { ClassLink } from './class-chain.ts'
import { type Constant, evaluate, keyName } from './evaluate.ts'
import { placeIn, type SourceModule } from './module.ts'

export type InstanceType = string | { [limit: string]: number }

export interface Located<T> {
  value: T
  place: Place
  /** The file that declares it: a path in `image` is relative to it. */
  path: string
}

export interface Statics {
  image?: Located<string>
  instanceType?: Located<InstanceType>
  maxInstances?: Located<number>
  containerName?: Located<string>
}

export const INSTANCE_TYPES = ['lite', 'basic', 'standard-1', 'standard-2', 'standard-3', 'standard-4']
const OLD_INSTANCE_TYPES = ['dev', 'standard']

type Field = keyof Statics | 'sqlite'

const FIELDS: { [name in Field]: (value: Constant) => string | undefined } = {
  image: (value) =>
    typeof value === 'string' && value.trim() === value && value ? undefined : 'a Dockerfile or image',
  instanceType: (value) =>
    isInstanceType(value) ? undefined : "a name such as 'lite', or { vcpu, memory_mib, disk_mb }",
  maxInstances: (value) =>
    Number.isInteger(value) && Number(value) > 0 ? undefined : 'a whole number above 0',
  containerName: (value) =>
    /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(String(value)) ? undefined : 'lower-case-with-dashes',
  sqlite: (value) =>
    value === true ? undefined : 'true: Cloudflare runs containers on SQLite-backed classes only',
}

/** The fields of a class; its own take precedence over inherited ones. */
export function readStatics(links: ClassLink[]): { statics: Statics; problems: Problem[] } {
  const problems: Problem[] = []
  const statics: { [name: string]: Located<Constant> } = {}
  for (const { node, module, name } of links) {
    for (const member of node.body.body) readMember(member, module, statics, problems)
    refuseAssignments(name, module, problems)
  }
  return { statics: statics as Statics, problems }
}

function readMember(
  member: ClassElement,
  module: SourceModule,
  statics: { [name: string]: Located<Constant> },
  problems: Problem[],
): void {
  if (member.type === 'StaticBlock' || member.type === 'TSIndexSignature') return
  const place = placeIn(module, member.start)
  const name = keyName(member.key, member.computed)
  if (name === undefined) return
  if (!member.static) {
    if (name in FIELDS && member.type === 'PropertyDefinition') {
      const fix = `write \`static ${name} = …\``
      problems.push({
        severity: 'warning',
        code: 'not-static',
        message: `${name} is not static: ignored`,
        place,
        fix,
      })
    }
    return
  }
  if (!Object.hasOwn(FIELDS, name)) {
    const meant = nearest(name, Object.keys(FIELDS))
    if (!meant || member.type === 'MethodDefinition') return
    const message = `static ${name} is unknown: ignored`
    problems.push({
      severity: 'warning',
      code: 'unknown-static',
      message,
      place,
      fix: `did you mean ${meant}?`,
    })
    return
  }
  const isField = member.type === 'PropertyDefinition' || member.type === 'AccessorProperty'
  if (isField && member.declare) return
  if (Object.hasOwn(statics, name)) return
  const value = isField && member.value ? readValue(name as Field, member.value, module, problems) : undefined
  if (value) statics[name] = { value: value.constant, place, path: module.path }
  else if (!isField || !member.value) {
    const message = `static ${name} has no value that can be read without running code`
    problems.push({
      severity: 'error',
      code: 'not-constant',
      message,
      place,
      fix: `write \`static ${name} = '…'\``,
    })
  }
}

function readValue(
  name: Field,
  expression: Expression,
  module: SourceModule,
  problems: Problem[],
): { constant: Constant } | undefined {
  const result = evaluate(expression, module)
  if ('unknown' in result) {
    const place = placeIn(module, result.unknown.start)
    const message = `static ${name} is not a constant (${result.unknown.type})`
    const fix = 'write a literal, or a constant of this file that is one'
    problems.push({ severity: 'error', code: 'not-constant', message, place, fix })
    return undefined
  }
  const place = placeIn(module, expression.start)
  const wanted = FIELDS[name](result.value)
  if (wanted) {
    const message = `static ${name} is ${JSON.stringify(result.value)}`
    problems.push({ severity: 'error', code: 'bad-static', message, place, fix: `it must be ${wanted}` })
    return undefined
  }
  if (name === 'instanceType' && typeof result.value === 'string') {
    const known = [...INSTANCE_TYPES, ...OLD_INSTANCE_TYPES]
    if (!known.includes(result.value)) {
      const message = `instance type “${result.value}” is unknown to this version; written unchanged`
      const fix = `known: ${INSTANCE_TYPES.join(', ')}`
      problems.push({ severity: 'warning', code: 'unknown-instance-type', message, place, fix })
    }
  }
  return { constant: name === 'instanceType' ? snakeLimits(result.value) : result.value }
}

/**
 * `static { this.image = … }` and `ShellSandbox.image = …` run after the fields and would override them, so they are
 * rejected.
 */
function refuseAssignments(className: string | undefined, module: SourceModule, problems: Problem[]): void {
  let staticBlocks = 0
  new Visitor({
    StaticBlock: () => {
      staticBlocks++
    },
    'StaticBlock:exit': () => {
      staticBlocks--
    },
    AssignmentExpression: ({ left, start }) => {
      if (left.type !== 'MemberExpression' || left.property.type !== 'Identifier') return
      const owner = left.object
      const ours =
        (owner.type === 'ThisExpression' && staticBlocks > 0) ||
        (owner.type === 'Identifier' && owner.name === className)
      const { name } = left.property
      if (!ours || !Object.hasOwn(FIELDS, name)) return
      const place = placeIn(module, start)
      const message = `${name} is set by a statement, which cannot be evaluated without running code`
      problems.push({
        severity: 'error',
        code: 'not-constant',
        message,
        place,
        fix: `write \`static ${name} = …\``,
      })
    },
  }).visit(module.program)
}

function isInstanceType(value: Constant): boolean {
  if (typeof value === 'string') return value !== ''
  if (typeof value !== 'object' || value === null) return false
  const limits = Object.entries(value)
  return limits.length > 0 && limits.every(([, limit]) => typeof limit === 'number')
}

function snakeLimits(value: Constant): Constant {
  if (typeof value !== 'object' || value === null) return value
  const snake = (key: string) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return Object.fromEntries(Object.entries(value).map(([key, limit]) => [snake(key), limit]))
}
