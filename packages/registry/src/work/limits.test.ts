import { MemoryProvider } from '@sandkasten/sdk/memory'
import { expect, it, onTestFinished } from 'vitest'
import { describeOnEachDatabase } from '../../../database/src/testing/each-database.ts'
import { openProcess } from './testing/process.ts'

describeOnEachDatabase('limits', (newDatabase) => {
  it('limits of guilds and channels hold when processes create at the same time', async () => {
    const provider = new MemoryProvider()
    const location = await newDatabase()
    const processes = await Promise.all(
      [1, 2, 3].map(() => openProcess(location, [provider], { limits: { perGuild: 7, perChannel: 4 } })),
    )
    onTestFinished(async () => {
      for (const process of processes) await process.close()
    })
    const guild = { appId: 'app', guildId: 'guild' }
    const create = (scope: object) =>
      Promise.allSettled(
        processes.flatMap((process) => [1, 2, 3].map(() => process.in({ ...guild, ...scope }).create())),
      )
    const results = [...(await create({ channelId: 'a' })), ...(await create({ channelId: 'b' }))]
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'quota_exceeded' })
    expect(await provider.list()).toHaveLength(7)
    const [first] = processes
    expect(await first!.in({ ...guild, channelId: 'a' }).list({ channel: true })).toHaveLength(4)
    // Another guild has its own limit, and room comes back.
    await first!.in({ appId: 'app', guildId: 'other' }).create()
    const [one] = await first!.in({ ...guild, channelId: 'a' }).list({ channel: true })
    await first!.in(guild).destroy(one!.name)
    await first!.in({ ...guild, channelId: 'b' }).create()
    await expect(first!.in({ ...guild, channelId: 'a' }).create()).rejects.toMatchObject({
      code: 'quota_exceeded',
    })
  })
})
