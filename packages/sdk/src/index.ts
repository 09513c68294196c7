/**
 * The interface: types, errors and the ability check. Loads in browsers and Workers.
 * Providers are at `@sandkasten/sdk/local`, `/memory` and so on.
 */
export { supports } from './core/supports.ts'
export { errorTable, SandboxError, type SandboxErrorCode, type SandboxErrorOptions } from './errors.ts'
export { quoteArg, quoteArgs } from './shared/quote.ts'
export type * from './spec/index.ts'
