/** What a command needs to find a daemon of this machine, without loading one. */
export {
  configOf,
  type DaemonConfig,
  type LoadOptions,
  loadConfig,
  maskedConfig,
  showConfig,
} from './config/index.ts'
export { readAddress } from './data-folder.ts'
