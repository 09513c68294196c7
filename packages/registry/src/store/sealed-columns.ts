import type { SealedSchema } from '@sandkasten/database/sealed'

const facts = 'registry_facts'
const check = 'registry_check_key'

/** The columns that migration 2 guards. */
export const firstColumns: SealedSchema = {
  facts,
  check,
  columns: [
    { table: 'sandbox_providers', column: 'api_key' },
    { table: 'sandboxes', column: 'env' },
    { table: 'sandboxes', column: 'opencode_password' },
  ],
}

/** The column of migration 3. */
export const secretColumns: SealedSchema = {
  facts,
  check,
  columns: [{ table: 'sandbox_secrets', column: 'sealed' }],
}

/** All columns with encrypted values. */
export const sealedSchema: SealedSchema = {
  facts,
  check,
  columns: [...firstColumns.columns, ...secretColumns.columns],
}
