/**
 * An HTTP round trip to a server in a sandbox on a keep-alive connection, beside the same server without a sandbox.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { timed } from '../../measure.ts'
import { reportTurns } from '../../report.ts'
import { plainEnv } from '../subjects/spawn.ts'
import type { Bench, Stage } from './stage.ts'

/** In Perl, which every Debian has, and in one write: two writes would wait for an acknowledgement. */
const SERVER = `
use IO::Socket::INET; $| = 1; $SIG{CHLD} = 'IGNORE';
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], Listen => 64, ReuseAddr => 1) or die $!;
print $server->sockport, "\\n";
while (my $client = $server->accept) {
  next if fork;
  my $text = '';
  while (sysread($client, $text, 65536, length $text)) {
    while ($text =~ s/^.*?\\r\\n\\r\\n//s) { syswrite($client, "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok") }
  }
  exit;
}`

export const port: Stage = {
  title: 'HTTP round trip to a port inside, keep-alive',
  ids: ['host.port', 'engine.port'],
  async run(bench: Bench) {
    const { ours, quick } = bench
    const server = spawn('perl', ['-e', SERVER, '0'], { env: plainEnv, stdio: ['ignore', 'pipe', 'inherit'] })
    const exited = once(server, 'exit')
    bench.place.cleanup.add('the server beside', () => server.kill('SIGKILL'))
    const sandbox = bench.wants('engine.port') ? await ours?.create() : undefined
    try {
      const [line] = await once(server.stdout, 'data')
      const turns = [turn('host.port', `http://127.0.0.1:${Number(line)}/`)]
      if (sandbox) {
        await sandbox.spawn({ cmd: 'perl', args: ['-e', SERVER, '8080'] })
        const url = await sandbox.getUrl(8080)
        await answers(url)
        turns.push(turn('engine.port', url))
      }
      await reportTurns(bench, turns, quick ? 3 : 10)
    } finally {
      server.kill('SIGKILL')
      await exited
      if (sandbox) await ours?.destroy(sandbox)
    }
  },
}

function turn(id: string, url: string) {
  return { id, samples: 100, measure: () => timed(() => get(url)) }
}

async function get(url: string): Promise<void> {
  const response = await fetch(url)
  const text = await response.text()
  if (text !== 'ok') throw new Error(`the server answered ${response.status} ${text}`)
}

async function answers(url: string): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await get(url)
    } catch (error) {
      if (attempt === 200) throw error
      await sleep(10)
    }
  }
}
