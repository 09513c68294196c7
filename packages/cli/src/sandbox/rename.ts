import { print } from '../table.ts'
import { openHere } from './open.ts'

export async function rename(name: string, newName: string, { json }: { json?: boolean }): Promise<number> {
  await using opened = await openHere()
  const record = await opened.sandboxes.rename(name, newName)
  print(json, record, () => `${name} is now ${record.name}`)
  return 0
}
