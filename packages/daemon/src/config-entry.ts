/** Exports that commands need to find this machine's daemon, without loading the daemon itself. */
export {
  configOf,
  type DaemonConfig,
  type LoadOptions,
  loadConfig,
  maskedConfig,
  showConfig,
} from './config/index.ts'
export { readAddress } from './data-folder.ts'
