import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { apiReport, documented, reportFile } from '../../scripts/api-report.ts'

describe('the public API', () => {
  it.each(documented.map((one) => [one.manifest.name, one] as const))(
    '%s is as its report says',
    async (name, one) => {
      const reported = readFileSync(reportFile(one), 'utf8')
      expect(await apiReport(one), `The public API of ${name} changed. Write the report: npm run api`).toBe(
        reported,
      )
    },
    120_000,
  )
})
