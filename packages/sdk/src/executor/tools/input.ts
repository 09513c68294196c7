/** The JSON Schema of a tool's input: an object of strings and whole numbers. */
export interface ToolInputSchema {
  readonly type: 'object'
  readonly properties: { readonly [name: string]: ToolProperty }
  readonly required: string[]
  /** Some models add inputs of their own, and some frameworks would refuse the call. */
  readonly additionalProperties: true
}

export interface ToolProperty {
  readonly type: 'string' | 'integer'
  readonly description: string
  readonly minimum?: number
  readonly maximum?: number
}

export function inputSchema(
  required: string[],
  properties: { readonly [name: string]: ToolProperty },
): ToolInputSchema {
  return { type: 'object', properties, required, additionalProperties: true }
}

/**
 * Returns the known inputs, or a text that tells the model what is wrong. `null` counts as absent, because models with
 * strict schemas send it. Unknown inputs are ignored.
 */
export function checkInput<Input>(schema: ToolInputSchema, given: unknown): { input: Input } | string {
  if (typeof given !== 'object' || given === null)
    return `Error: The input must be an object with ${namesOf(schema)}.`
  const input: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(schema.properties)) {
    const value = Object.hasOwn(given, name) ? (given as Record<string, unknown>)[name] : undefined
    if (value === undefined || value === null) {
      if (!schema.required.includes(name)) continue
      return `Error: The input “${name}” is missing. The inputs are ${namesOf(schema)}.`
    }
    const wrong = problemOf(property, value)
    if (wrong !== undefined) return `Error: The input “${name}” ${wrong}.`
    input[name] = value
  }
  return { input: input as Input }
}

function problemOf({ type, minimum = 1, maximum }: ToolProperty, value: unknown): string | undefined {
  if (type === 'string') return typeof value === 'string' ? undefined : 'must be a string'
  if (!Number.isSafeInteger(value)) return 'must be a whole number'
  if ((value as number) < minimum) return `must be at least ${minimum}`
  return maximum !== undefined && (value as number) > maximum ? `must be at most ${maximum}` : undefined
}

function namesOf({ properties, required }: ToolInputSchema): string {
  return Object.keys(properties)
    .map((name) => (required.includes(name) ? name : `${name} (optional)`))
    .join(', ')
}
