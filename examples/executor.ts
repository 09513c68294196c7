import { getSandboxExecutor } from '@sandkasten/sdk/executor'

// This machine in development, Vercel where VERCEL=1, or any provider that you pass.
const executor = getSandboxExecutor({ kind: 'local', conversationId: 'task-42' })
try {
  await executor.writeFile('answer.py', 'print(6 * 7)')
  const { stdout, exitCode } = await executor.execute('python3', ['answer.py'], { timeout: 5000 })
  console.log(stdout.trim(), exitCode, await executor.listFiles())
  console.log(await executor.readFile('missing.txt'))
  console.log(await executor.execute('sh', ['-c', 'rm -rf /']).catch((error) => error.code))
} finally {
  await executor.cleanup()
}
