import { reportError } from '../errors.ts'

/** Runs an action for each item, like `rm`: reports a failure and continues with the others. */
export async function forEach(
  ids: readonly string[],
  { json }: { json?: boolean },
  work: (id: string) => Promise<{ facts: object; text: string }>,
  report: (error: unknown) => number = reportError,
): Promise<number> {
  const all: object[] = []
  let code = 0
  for (const id of ids) {
    try {
      const { facts, text } = await work(id)
      all.push(facts)
      if (!json) console.log(text)
    } catch (error) {
      code = report(error)
    }
  }
  if (json) console.log(JSON.stringify(all, null, 2))
  return code
}
