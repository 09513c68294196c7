import { SpritesProvider } from '@sandkasten/sdk/sprites'

// Reads SPRITES_TOKEN and, for another address than the vendor's, SPRITES_API_URL.
const provider = new SpritesProvider()
const sandbox = await provider.create({ name: 'my-agent', envVars: { GREETING: 'Hello' } })
await sandbox.files.writeFile('name.txt', 'sprite')
const { stdout } = await sandbox.runCommand({ cmd: 'sh', args: ['-c', 'echo "$GREETING, $(cat name.txt)"'] })
console.log(stdout.trim())
await sandbox.destroy()
