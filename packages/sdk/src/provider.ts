/** For authors of providers: a driver in, the whole contract out, and the helpers that drivers share. */
export type * from './core/driver.ts'
export { DriverProvider } from './core/provider.ts'
export { abortable, abortedError, onAbort, throwIfAborted } from './shared/abort.ts'
export { asBytes, chunksOf, concat, encode, streamOf } from './shared/bytes.ts'
export { randomId } from './shared/ids.ts'
export { OutputLog } from './shared/output-log.ts'
export { matches, pageOf } from './shared/page.ts'
export { quoteArg, quoteArgs } from './shared/quote.ts'
