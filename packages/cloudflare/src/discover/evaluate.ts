/**
 * Evaluates constant expressions without running code: literals, templates, `as const`, top-level constants, string
 * concatenation.
 */
import type { Expression, ObjectPropertyKind, PropertyKey } from 'oxc-parser'
import type { SourceModule } from './module.ts'

export type Constant = string | number | boolean | null | { [key: string]: Constant }

/** The value, or the innermost expression without a constant value. */
export type Evaluation = { value: Constant } | { unknown: { start: number; type: string } }

export function evaluate(wrapped: Expression, module: SourceModule, depth = 0): Evaluation {
  const expression = unwrap(wrapped)
  const unknown = { unknown: { start: expression.start, type: expression.type } }
  if (depth > 50) return unknown
  const again = (inner: Expression) => evaluate(inner, module, depth + 1)
  switch (expression.type) {
    case 'Literal': {
      const { value } = expression
      const plain = value === null || ['string', 'number', 'boolean'].includes(typeof value)
      return plain && !('regex' in expression) ? { value: value as Constant } : unknown
    }
    case 'Identifier': {
      const constant = module.constants.get(expression.name)
      return constant ? again(constant) : unknown
    }
    case 'TemplateLiteral': {
      let text = expression.quasis[0]?.value.cooked ?? ''
      for (const [position, inner] of expression.expressions.entries()) {
        const part = again(inner)
        if ('unknown' in part) return part
        text += String(part.value) + (expression.quasis[position + 1]?.value.cooked ?? '')
      }
      return { value: text }
    }
    case 'UnaryExpression': {
      const inner = again(expression.argument)
      if ('unknown' in inner || typeof inner.value !== 'number') return unknown
      if (expression.operator === '-') return { value: -inner.value }
      return expression.operator === '+' ? inner : unknown
    }
    case 'BinaryExpression': {
      if (expression.operator !== '+') return unknown
      const [left, right] = [again(expression.left), again(expression.right)]
      if ('unknown' in left) return left
      if ('unknown' in right) return right
      return typeof left.value === 'string' && typeof right.value === 'string'
        ? { value: left.value + right.value }
        : unknown
    }
    case 'ObjectExpression':
      return evaluateObject(expression.properties, again)
    default:
      return unknown
  }
}

export function unwrap(expression: Expression): Expression {
  switch (expression.type) {
    case 'ParenthesizedExpression':
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
    case 'TSNonNullExpression':
    case 'TSTypeAssertion':
    case 'TSInstantiationExpression':
      return unwrap(expression.expression)
    default:
      return expression
  }
}

export function keyName(key: PropertyKey, computed: boolean): string | undefined {
  if (key.type === 'Literal') return String(key.value)
  if (key.type === 'Identifier' && !computed) return key.name
  return undefined
}

function evaluateObject(
  properties: ObjectPropertyKind[],
  again: (inner: Expression) => Evaluation,
): Evaluation {
  const value: { [key: string]: Constant } = {}
  for (const property of properties) {
    const unknown = { unknown: { start: property.start, type: property.type } }
    if (property.type !== 'Property') return unknown
    const key = keyName(property.key, property.computed)
    if (key === undefined || property.kind !== 'init' || property.method) return unknown
    const inner = again(property.value)
    if ('unknown' in inner) return inner
    value[key] = inner.value
  }
  return { value }
}
