/** What runs in a sandbox, by the contract, over a runner: for every provider that has one, the engine's and ssh. */
export type { ProcessHost } from './process.ts'
export { type Place, RunnerPrograms } from './programs.ts'
