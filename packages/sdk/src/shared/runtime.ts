import { SandboxError } from '../errors.ts'

/** Runtimes name a program and the beginning of its version: `node24`, `python3.13`. */
export type RuntimeProgram = 'node' | 'python'

/** Versions of programs, for example `{ node: '24.3.0' }`. An absent program was not found. */
export type Programs = { readonly [P in RuntimeProgram]?: string }

export interface Runtime {
  readonly program: RuntimeProgram
  readonly version: string
}

/** Undefined for the name of anything else. */
export function parseRuntime(name: string): Runtime | undefined {
  const [, program, version] = /^(node|python)(\d{1,3}(?:\.\d{1,3}){0,2})$/.exec(name) ?? []
  return program === undefined ? undefined : { program: program as RuntimeProgram, version: version! }
}

/** Whether these programs are the runtime: `node24` is Node.js 24.3.0, and not 2.4 or 240. */
export function hasRuntime(programs: Programs, name: string): boolean {
  const wanted = parseRuntime(name)
  const found = wanted && programs[wanted.program]
  return found !== undefined && (found === wanted!.version || found.startsWith(`${wanted!.version}.`))
}

/** The usual names: Node.js by its major version, Python by its minor. */
export function runtimeNames({ node, python }: Programs): string[] {
  return [
    ...(node === undefined ? [] : [`node${node.split('.')[0]}`]),
    ...(python === undefined ? [] : [`python${python.split('.').slice(0, 2).join('.')}`]),
  ]
}

/** The error for a runtime that a provider does not have. `more` says how to get others. */
export function noRuntime(
  provider: string,
  runtime: string,
  available: readonly string[],
  more = '',
  cause?: unknown,
): SandboxError {
  const there = available.length === 0 ? 'It has no runtimes.' : `It has: ${available.join(', ')}.`
  return new SandboxError('unsupported', `The provider “${provider}” has no runtime “${shown(runtime)}”.`, {
    provider,
    details: { option: 'runtime', runtime, available: [...available] },
    hint: [there, more].filter((text) => text !== '').join(' '),
    cause,
  })
}

/** What the provider's option `runtimes` maps a runtime to. `kind`: what the option maps to, as in “template”. */
export function mappedRuntime<T>(
  provider: string,
  runtime: string,
  runtimes: Readonly<Record<string, T>>,
  kind: string,
): T {
  if (Object.hasOwn(runtimes, runtime)) return runtimes[runtime]!
  const how = `Map it to a ${kind} with the provider’s option: runtimes: { '${shown(runtime)}': '…' }.`
  throw noRuntime(provider, runtime, Object.keys(runtimes), how)
}

/** Copies the option `runtimes` of a provider, checked. `nameOf`: the name in a value that is more than a name. */
export function checkRuntimes<T = string>(
  runtimes: Readonly<Record<string, T>> | undefined,
  provider: string,
  nameOf: (value: unknown) => unknown = (value) => value,
): Record<string, T> {
  if (runtimes === undefined) return {}
  const wrong = () =>
    new SandboxError('invalid_argument', '`runtimes` must be an object of non-empty strings.', {
      provider,
      hint: "For example { node24: 'my-node' }.",
    })
  if (typeof runtimes !== 'object' || runtimes === null) throw wrong()
  for (const value of Object.values(runtimes)) {
    const name = nameOf(value)
    if (typeof name !== 'string' || name === '') throw wrong()
  }
  return { ...runtimes }
}

function shown(text: string): string {
  return text.replace(/\p{Cc}/gu, '?').slice(0, 100)
}
