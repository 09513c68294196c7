/** Shared by the crash test and its worker. */
export type Said =
  | { about: 'write'; id: string; text: string }
  | { about: 'destroy' | 'delete'; id: string }
  | { done: 'create' | 'write'; id: string; text: string }
  | { done: 'ready' | 'destroy' | 'delete'; id: string }
  | { done: 'snapshot'; id: string; picture: string }
  | { failed: string }

interface Shown {
  runCommand(options: {
    cmd: string
    args: string[]
  }): Promise<{ stdout: string; exitCode?: number | undefined; stderr: string }>
}

/** Every name in the working directory with its kind, mode, owner, size, time and content. */
export async function showDisk(sandbox: Shown): Promise<string> {
  const script = `find . -printf '%p %y %m %U:%G %T@ %l\\n' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -r0 sha256sum`
  const { stdout, exitCode, stderr } = await sandbox.runCommand({ cmd: 'bash', args: ['-c', script] })
  if (exitCode !== 0) throw new Error(`looking failed: ${stderr}`)
  return stdout
}

/** Empty if nothing was written yet. */
export async function noteOf(sandbox: Shown): Promise<string> {
  return (await sandbox.runCommand({ cmd: 'cat', args: ['note'] })).stdout.trim()
}
