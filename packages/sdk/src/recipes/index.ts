/** Recipes on the contract alone, which work with every provider. Node only. */
export { cloneRepo } from './clone-repo.ts'
export { pullChanges } from './pull-changes.ts'
export type * from './types.ts'
export { uploadProject } from './upload-project.ts'
