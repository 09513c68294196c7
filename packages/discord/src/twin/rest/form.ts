import { DiscordError, type FormError } from '../errors.ts'

/** A field's place in a body, such as `['embeds', 0, 'title']`. */
export type Path = readonly (string | number)[]

export type Body = Readonly<Record<string, unknown>>

/** Collects what is wrong with a body, and throws Discord's code 50035 with its tree of errors. */
export class Form {
  readonly #errors: { path: Path; error: FormError }[] = []

  add(path: Path, code: string, message: string): void {
    this.#errors.push({ path, error: { code, message } })
  }

  required(path: Path): void {
    this.add(path, 'BASE_TYPE_REQUIRED', 'This field is required')
  }

  /** A text within limits; `undefined` when it is absent, null or wrong. */
  text(
    path: Path,
    value: unknown,
    {
      min = 0,
      max = Number.POSITIVE_INFINITY,
      required = false,
    }: { min?: number; max?: number; required?: boolean } = {},
  ): string | undefined {
    if (value === undefined || value === null) {
      if (required) this.required(path)
      return undefined
    }
    if (typeof value !== 'string') {
      this.add(path, 'STRING_TYPE_CONVERT', `Could not convert "${String(value).slice(0, 50)}" to a string.`)
      return undefined
    }
    this.length(path, value, min, max)
    return value
  }

  length(path: Path, value: string | readonly unknown[], min: number, max: number): void {
    const length = typeof value === 'string' ? [...value].length : value.length
    if (length >= min && length <= max) return
    if (min > 0 && max < Number.POSITIVE_INFINITY) {
      this.add(path, 'BASE_TYPE_BAD_LENGTH', `Must be between ${min} and ${max} in length.`)
    } else if (length > max) {
      this.add(path, 'BASE_TYPE_MAX_LENGTH', `Must be ${max} or fewer in length.`)
    } else {
      this.add(path, 'BASE_TYPE_MIN_LENGTH', `Must be ${min} or more in length.`)
    }
  }

  choice<T>(path: Path, value: unknown, choices: readonly T[]): T | undefined {
    if (value === undefined) return undefined
    if (choices.includes(value as T)) return value as T
    this.add(
      path,
      'BASE_TYPE_CHOICES',
      `Value must be one of {${choices.map((choice) => `'${choice}'`).join(', ')}}.`,
    )
    return undefined
  }

  list(path: Path, value: unknown): Body[] | undefined {
    if (value === undefined || value === null) return undefined
    if (!Array.isArray(value)) {
      this.add(path, 'LIST_TYPE_CONVERT', 'Only iterables may be used in a ListType')
      return undefined
    }
    return value.map((item, index) => this.object([...path, index], item) ?? {})
  }

  object(path: Path, value: unknown): Body | undefined {
    if (value === undefined || value === null) return undefined
    if (typeof value === 'object' && !Array.isArray(value)) return value as Body
    this.add(path, 'MODEL_TYPE_CONVERT', 'Only dictionaries may be used in a ModelType')
    return undefined
  }

  throwIfAny(): void {
    if (this.#errors.length === 0) return
    const tree: Record<string, unknown> = {}
    for (const { path, error } of this.#errors) {
      let node = tree
      for (const key of path) {
        node[key] ??= {}
        node = node[key] as Record<string, unknown>
      }
      node._errors = [...((node._errors as FormError[] | undefined) ?? []), error]
    }
    throw new DiscordError('invalidForm', tree)
  }
}
