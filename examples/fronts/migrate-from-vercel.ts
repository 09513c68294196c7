import { onSandkasten } from '@sandkasten/sdk/vercel'
import * as vercel from '@vercel/sandbox'

// These lines replace `import { Sandbox } from '@vercel/sandbox'`. The rest of your program stays the same.
const url = process.env.SANDKASTEN_VERCEL_URL!
const apiKey = process.env.SANDKASTEN_API_KEY!
const { Sandbox } = onSandkasten(vercel, { url, apiKey })

const sandbox = await Sandbox.create({ ports: [3000], timeout: 10 * 60_000, env: { NAME: 'you' } })
const echo = await sandbox.runCommand('sh', ['-c', 'echo "hello $NAME"; exit 3'])
console.log(echo.exitCode, (await echo.stdout()).trim())

// `sandbox.domain(3000)` always returns an address of Vercel. `sandbox.routes` has the address on your daemon.
console.log(sandbox.routes.map(({ port }) => port))
await sandbox.delete()
