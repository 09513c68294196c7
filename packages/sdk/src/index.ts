/**
 * The root entry: types, errors, the ability check and the resilience helpers. Loads in browsers and Workers.
 * Providers are at `@sandkasten/sdk/local`, `/memory` and so on.
 */
export { placeholder, type SecretOptions, secret } from './core/network/secret.ts'
export { supports } from './core/supports.ts'
export {
  errorTable,
  type Hints,
  SandboxError,
  type SandboxErrorCode,
  type SandboxErrorOptions,
} from './errors.ts'
export * from './resilience/index.ts'
export type { Clock } from './shared/calls/clock.ts'
export { quoteArg, quoteArgs } from './shared/quote.ts'
export type * from './spec/index.ts'
