import { reportError } from '../errors.ts'

/** The same for each of several, as `rm` does it: one that fails is said and stops no other. */
export async function forEach(
  ids: readonly string[],
  { json }: { json?: boolean },
  work: (id: string) => Promise<{ facts: object; text: string }>,
): Promise<number> {
  const all: object[] = []
  let code = 0
  for (const id of ids) {
    try {
      const { facts, text } = await work(id)
      all.push(facts)
      if (!json) console.log(text)
    } catch (error) {
      code = reportError(error)
    }
  }
  if (json) console.log(JSON.stringify(all, null, 2))
  return code
}
