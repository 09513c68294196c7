/**
 * A small gateway for tests. It gets the sockets of a sandbox's network and answers on them: TCP with the address that
 * the program called, DNS with the question's size. It remembers the packets that were rejected.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

export interface TestGateway extends AsyncDisposable {
  /** The names of the sockets that it got. */
  readonly sockets: readonly string[]
  /** Connections, questions and rejected packets, such as `tcp 203.0.113.7 443` or `refused 17 203.0.113.7`. */
  readonly seen: readonly string[]
  /** Resolves when a line like this one was seen. */
  sees(line: string | RegExp): Promise<void>
  /** Resolves when the sandbox has closed its side. */
  readonly ended: Promise<void>
}

const PROGRAM = `
import json, socket, select, sys, os, ipaddress
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
if len(sys.argv) > 2:
    os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
s.connect(sys.argv[1])
line, fds, _, _ = socket.recv_fds(s, 65536, 8)
names = json.loads(line)["sockets"]
got = {name: socket.socket(fileno=fd) for name, fd in zip(names, fds)}
for one in got.values(): one.setblocking(False)
def say(text): sys.stdout.write(text + "\\n"); sys.stdout.flush()
say(json.dumps(names))
poll = select.poll()
poll.register(s, select.POLLIN)
poll.register(0, select.POLLIN)
for one in got.values(): poll.register(one, select.POLLIN)
by = {one.fileno(): name for name, one in got.items()}
while True:
    for fd, _ in poll.poll():
        if fd == 0: sys.exit(0)
        if fd == s.fileno():
            say("ended"); sys.exit(0)
        name = by[fd]
        try:
            if name in ("tcp4", "tcp6"):
                c, _ = got[name].accept()
                to = c.getsockname()
                say("tcp %s %d" % (to[0], to[1]))
                c.setblocking(True)
                c.sendall(("gateway %s %d" % (to[0], to[1])).encode())
                c.close()
            elif name == "dns":
                asked, who = got[name].recvfrom(4096)
                say("dns %d" % len(asked))
                got[name].sendto(b"dns %d" % len(asked), who)
            else:
                p = got[name].recv(4096)
                if p[0] >> 4 == 4: say("refused %d %s" % (p[9], ipaddress.ip_address(p[16:20])))
                else: say("refused %d %s" % (p[6], ipaddress.ip_address(p[24:40])))
        except BlockingIOError: pass
`

/** Connects to the socket of a running sandbox, as another user if there is an id. */
export async function testGateway(path: string, id?: number): Promise<TestGateway> {
  const args = ['-c', PROGRAM, path, ...(id === undefined ? [] : [String(id)])]
  const child = spawn('python3', args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const seen: string[] = []
  const [end, first] = [Promise.withResolvers<void>(), Promise.withResolvers<string[]>()]
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'ended') end.resolve()
    else if (line.startsWith('[')) first.resolve(JSON.parse(line))
    else seen.push(line)
  })
  const exited = once(child, 'exit')
  void exited.then(([code]) => first.reject(new Error(`the gateway ended with ${code}`)))
  return {
    sockets: await first.promise,
    seen,
    ended: end.promise,
    async sees(wanted) {
      const fits = (line: string) => (typeof wanted === 'string' ? line === wanted : wanted.test(line))
      for (let tries = 0; !seen.some(fits); tries++) {
        if (tries === 300) throw new Error(`${wanted} was not seen:\n${seen.join('\n')}`)
        await sleep(10)
      }
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await exited
    },
  }
}
