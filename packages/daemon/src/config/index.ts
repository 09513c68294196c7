export { configOf, type DaemonConfig, type FrontConfig, type LoadOptions, loadConfig } from './config.ts'
export { isLoopback } from './listen-address.ts'
export { type EndAction, endAction, type FrontName, type Quotas, quotasSchema } from './schema.ts'
export { maskedConfig, showConfig } from './show.ts'
