import type { SealedValuesOptions } from '@sandkasten/database/sealed'

/** The columns with encrypted values. */
export const sealedSchema: SealedValuesOptions = {
  facts: 'daemon_facts',
  check: 'daemon_check_key',
  columns: [{ table: 'secrets', column: 'sealed' }],
  protectOnlyKeys: true,
}
