import { getSandboxExecutor } from '@sandkasten/sdk/executor'

// The sandbox of one conversation: this machine in development, Vercel if VERCEL=1, or any provider that you pass.
const executor = getSandboxExecutor({ kind: 'local', conversationId: 'task-42' })
try {
  await executor.writeFile('answer.py', 'print(6 * 7)')
  const { stdout, exitCode } = await executor.execute('python3', ['answer.py'], { timeout: 5000 })
  console.log(stdout.trim(), exitCode, await executor.listFiles())
  console.log(await executor.readFile('missing.txt'))
  console.log(await executor.execute('sh', ['-c', 'rm -rf /']).catch((error) => error.message))
} finally {
  await executor.cleanup()
}
