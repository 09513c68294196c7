export { type SnapshotRecord, Snapshots } from './snapshots.ts'
export { Draft, LayerStore } from './store.ts'
export { type TreeSize, Trees } from './trees.ts'
