/** Encrypted values in a database: the cipher, its key outside of the database, and rotation. */

export { mostTextBytes, type Place, unreadable } from './cipher.ts'
export { guardColumns, isStaleKey, keyGuard, type SealedSchema } from './key-guard.ts'
export { type KeySource, keySource } from './key-source.ts'
export { SealedSecrets } from './sealed-secrets.ts'
export { SealedValues, type SealedValuesOptions } from './sealed-values.ts'
