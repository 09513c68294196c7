import { print } from '../table.ts'
import { openHere } from './open.ts'

interface ThreadOptions {
  json?: boolean
}

export async function attach(name: string, thread: string, { json }: ThreadOptions): Promise<number> {
  await using opened = await openHere()
  const record = await opened.sandboxes.attach(thread, name)
  print(json, record, () => `thread ${thread} is attached to ${record.name}`)
  return 0
}

export async function detach(thread: string, { json }: ThreadOptions): Promise<number> {
  await using opened = await openHere()
  const detached = await opened.sandboxes.detach(thread)
  print(json, { detached }, () => `thread ${thread} ${detached ? 'is detached' : 'was not attached'}`)
  return 0
}
