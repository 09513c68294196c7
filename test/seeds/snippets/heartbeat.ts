import { prisma, sandboxDbId } from '../surroundings.ts'
import { handle, provider } from './full-flow.ts'

// During active session, extend timeout periodically
const heartbeat = setInterval(async () => {
  if (provider.name === 'vercel') {
    await handle.extendTimeout(5 * 60 * 1000) // +5 min
  }
}, 3 * 60 * 1000) // every 3 min

// On session end
clearInterval(heartbeat)
const { snapshotId } = await handle.snapshot()
await prisma.sandboxes.update({
  where: { id: sandboxDbId },
  data: { status: 'stopped', snapshot_id: snapshotId },
})

export {}
