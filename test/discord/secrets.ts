import { spawnSync } from 'node:child_process'
import type { Twin, TwinChannel } from '@sandkasten/discord/testing'
import type { SandboxHandle } from '@sandkasten/sdk'

/** Everything that members of the server can see, with the requests of controls. */
export function everythingShown(twin: Twin, guild = 'Workshop'): string {
  const shown = (channel: TwinChannel): string[] =>
    channel.messages.flatMap((message) => [
      String(message),
      JSON.stringify([message.content, message.embeds, message.components]),
    ])
  return twin
    .guild(guild)
    .channels.flatMap((channel) => [...shown(channel), ...channel.threads.flatMap(shown)])
    .join('\n')
}

/** Files below a folder that contain the text. */
export function filesWith(text: string, folder: string): string[] {
  const args = ['-rlaF', '-f', '-', '--devices=skip', folder]
  const { stdout } = spawnSync('grep', args, {
    input: `${text}\n`,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 ** 2,
  })
  return stdout.split('\n').filter((line) => line !== '')
}

/** Which places in the sandbox contain the text: files, and the environments and arguments of processes. */
export async function placesInSandbox(handle: SandboxHandle, text: string): Promise<string[]> {
  const processes = await handle.runCommand({
    cmd: 'sh',
    args: ['-c', 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null || true'],
    maxOutputBytes: 8 * 1024 ** 2,
  })
  const folders = ['/home', '/root', '/workspace', handle.workdir, '/tmp', '/var/tmp', '/etc', '/run', '/opt']
  const { stdout } = await handle.runCommand({
    cmd: 'sh',
    args: ['-c', 'grep -rlaF -f - --devices=skip "$@" 2>/dev/null || true', 'sh', ...folders],
    stdin: `${text}\n`,
    timeoutMs: 60_000,
  })
  return [
    ...(processes.stdout.includes(text) ? ['processes'] : []),
    ...stdout.split('\n').filter((line) => line !== ''),
  ]
}
