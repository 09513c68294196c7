/** For other packages of Sandkasten only. Leases of processes: may change in any release. */
export { BeatWatch, stateOf, thisHolder } from './leases/index.ts'
