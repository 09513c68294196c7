import type { SealedSchema } from '@sandkasten/database/sealed'

/** The columns with encrypted values. */
export const sealedSchema: SealedSchema = {
  facts: 'registry_facts',
  check: 'registry_check_key',
  columns: [
    { table: 'sandbox_providers', column: 'api_key' },
    { table: 'sandboxes', column: 'env' },
    { table: 'sandboxes', column: 'opencode_password' },
  ],
}
