/** Disposes all, the first one first, also if some fail. Throws the first failure. */
export async function closeAll(...all: readonly (AsyncDisposable | undefined)[]): Promise<void> {
  const failures: unknown[] = []
  for (const one of all) {
    try {
      await one?.[Symbol.asyncDispose]()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}
