/** Secrets of projects: written by callers, read only for the gateway. */

export { keySource } from '@sandkasten/database/sealed'
export { type Secret, secretLimits, secretName } from './facts.ts'
export { ProjectSecrets } from './project-secrets.ts'
