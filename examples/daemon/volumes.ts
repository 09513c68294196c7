import { SandboxClient } from '@sandkasten/sdk/client'

// Reads SANDKASTEN_URL and SANDKASTEN_API_KEY.
const client = new SandboxClient()
await client.createVolume('dataset', { limitMb: 500 })

// One running session may write.
const writer = await client.createSession({ volumes: [{ name: 'dataset', path: '/data' }] })
await writer.exec('echo first > /data/log')

// Any number of sessions may read, and see changes at once.
const reader = await client.createSession({ volumes: [{ name: 'dataset', path: '/data', readOnly: true }] })
await writer.exec('echo second >> /data/log')
console.log((await reader.exec('cat /data/log')).output.trim())

await writer.destroy()
await reader.destroy()
console.log(await client.deleteVolume('dataset'))
