import { SshProvider } from '@sandkasten/sdk/ssh'

const { HOST = 'build.example', PORT = '22', ACCOUNT = 'agent', KEY = '', KNOWN_HOSTS = '' } = process.env

const provider = new SshProvider({
  host: HOST,
  port: Number(PORT),
  username: ACCOUNT,
  privateKeyPath: KEY,
  knownHosts: KNOWN_HOSTS,
  acceptNoIsolation: true,
})

const sandbox = await provider.getOrCreate({ name: 'nightly', lifetimeMs: 3_600_000 })
await sandbox.files.writeFile('hello.txt', 'hello from this machine\n')
console.log((await sandbox.runCommand({ cmd: 'cat', args: ['hello.txt'] })).stdout)

// A detached process survives this program and its connection. Another program finds it by its id.
await sandbox.spawn({ cmd: 'sh', args: ['-c', 'echo built; exit 3'], execId: 'build', detached: true })
await provider.close()

const build = await (await provider.get(sandbox.id)).getProcess('build')
const { stdout, exitCode } = await build.wait()
console.log(stdout, exitCode)

await sandbox.destroy()
await provider.close()
