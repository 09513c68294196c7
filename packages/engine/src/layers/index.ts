export { type SnapshotRecord, Snapshots } from './snapshots.ts'
export { Draft, LayerStore } from './store.ts'
export { type TreeRights, type TreeSize, Trees } from './trees.ts'
