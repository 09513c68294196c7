import { ConnectionConfig, Sandbox } from '@alibaba-group/opensandbox'

// OpenSandbox's own SDK, unmodified. OPEN_SANDBOX_DOMAIN is the address of the front, OPEN_SANDBOX_API_KEY a key of the daemon.
const sandbox = await Sandbox.create({
  connectionConfig: new ConnectionConfig(),
  image: 'ubuntu',
  timeoutSeconds: 10 * 60,
  env: { GREETING: 'Hello' },
})
const execution = await sandbox.commands.run('echo "$GREETING from a sandbox"')
console.log(execution.logs.stdout[0]?.text)
await sandbox.kill()
await sandbox.close()
