import { LocalProvider } from '@sandkasten/sdk/local'

// `acceptNoIsolation` silences the warning: commands run with the rights of your account.
const provider = new LocalProvider({ acceptNoIsolation: true })
const sandbox = await provider.create({ envVars: { GREETING: 'Hello' } })

await sandbox.writeFile('greet.sh', 'echo "$GREETING, $1!"; exit 3')
const { stdout, exitCode } = await sandbox.runCommand({ cmd: 'sh', args: ['greet.sh', 'you and me'] })
console.log(stdout.trim(), exitCode)

await sandbox.destroy()
