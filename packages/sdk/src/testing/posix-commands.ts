import type { Command, CommandKit } from './command-kit.ts'

export interface PosixCommandsOptions {
  /** The program in the sandbox that can serve HTTP and connect. */
  server?: 'python3' | 'node'
}

/** Programs for any sandbox with `sh` and the usual tools. Values are passed as arguments, never inside a script. */
export function posixCommands(options: PosixCommandsOptions = {}): CommandKit {
  const connect = options.server === undefined ? undefined : connectors[options.server]
  const serve = options.server === undefined ? undefined : servers[options.server]
  return {
    print: (text) => sh('printf %s "$1"', text),
    printError: (text) => sh('printf %s "$1" >&2', text),
    exit: (code) => sh('exit "$1"', String(code)),
    die: (signal) => sh('kill -s "$1" $$; sleep 5', signal.replace(/^SIG/, '')),
    copyInput: () => ({ cmd: 'cat', args: [] }),
    printEnv: (name) => sh(`eval "printf %s \\"\\\${$1-<unset>}\\""`, name),
    printDir: () => sh(`dir=$(pwd -P; printf x); printf %s "\${dir%?x}"`),
    printArgs: (args) => sh('for arg in "$@"; do printf "%s\\0" "$arg"; done', ...args),
    bytes: () => sh(`printf '${allBytes}'`),
    wait: () => sh('echo ready; exec sleep 1000000'),
    waitTrapped: () =>
      sh("trap 'echo term; exit 7' TERM; echo ready; while :; do sleep 1000000 & wait; done"),
    relay: () => sh(relay),
    flood: (bytes, marker, gate) => sh(flood, String(bytes), marker ?? '', gate ?? ''),
    floodBoth: (bytes, errorBytes = bytes) => sh(floodBoth, String(bytes), String(errorBytes)),
    gate: (path) => sh('echo before; while ! test -e "$1"; do sleep 0.02; done; echo after', path),
    splitCharacter: (path) =>
      sh("printf 'a\\303'; while ! test -e \"$1\"; do sleep 0.02; done; printf '\\251z'", path),
    tree: (marker, { leaves, heeds } = {}) =>
      sh(tree, marker, heeds ? '' : 'TERM INT HUP', leaves ?? 'nothing'),
    // Opened before printing: from then on the reader gets end-of-file when the last writer ends.
    afterTree: (marker) => sh('exec 3<"$1"; echo watching; cat <&3 >/dev/null; echo gone', marker),
    daemon: (marker) => sh(daemon, marker),
    leaveChild: () => sh('sleep 1000000 & echo started'),
    userId: () => sh('printf %s "$(id -u)"'),
    script: '#!/bin/sh\nprintf "from a script"\n',
    missing: 'sandkasten-no-such-program',
    server: serve,
    connect,
    version: (program) => ({ cmd: program === 'python' ? 'python3' : program, args: ['--version'] }),
  }
}

function sh(script: string, ...args: string[]): Command {
  return { cmd: 'sh', args: ['-c', script, 'sh', ...args] }
}

const allBytes = Array.from({ length: 256 }, (_, byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')

const flood = `
while test -n "$3" && ! test -e "$3"; do sleep 0.02; done
yes 0123456789abcde | head -c "$1"
test -z "$2" || : > "$2"`

const floodBoth = `
flood() { yes 0123456789abcde | head -c "$1"; }
flood "$1"
flood "$2" >&2
flood "$1"`

const relay = `
while IFS= read -r line; do
  case $line in
    "out "*) printf '%s\\n' "\${line#out }" ;;
    "err "*) printf '%s\\n' "\${line#err }" >&2 ;;
    "exit "*) exit "\${line#exit }" ;;
  esac
done`

/**
 * The grandchild holds a FIFO open while it lives. `afterTree` reads from the FIFO and sees end-of-file when the last
 * writer is gone.
 */
const tree = `
mkfifo "$1" || exit 1
run='
  trap : USR1
  test -z "$2" || trap "" $2
  exec 9<>"$1"
  echo ready
  while :; do sleep 1000000 9>&- & wait; done'
case $3 in
  nothing) sh -c 'sh -c "$1" sh "$2" "$3" & wait' sh "$run" "$1" "$2" & wait ;;
  group) sh -c 'setsid sh -c "$1" sh "$2" "$3" & wait' sh "$run" "$1" "$2" & wait ;;
  parent) sh -c 'setsid sh -c "$1" sh "$2" "$3" &' sh "$run" "$1" "$2"; exec sleep 1000000 ;;
esac`

const daemon = `
mkfifo "$1" || exit 1
setsid sh -c 'exec 9<>"$1"; : > "$1.runs"; exec sleep 1000000' sh "$1" </dev/null >/dev/null 2>&1 &
while ! test -e "$1.runs"; do sleep 0.02; done
echo started`

const servers = {
  python3: (port: number, body: string): Command => ({
    cmd: 'python3',
    args: ['-c', pythonServer, String(port), body],
  }),
  node: (port: number, body: string): Command => ({
    cmd: 'node',
    args: ['-e', nodeServer, String(port), body],
  }),
}

const pythonServer = `
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[2].encode())
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(('0.0.0.0', int(sys.argv[1])), Handler)
print('ready', flush=True)
server.serve_forever()`

const nodeServer = `
const [port, body] = process.argv.slice(1)
require('node:http').createServer((_, answer) => answer.end(body)).listen(Number(port), '0.0.0.0', () => console.log('ready'))`

const connectors = {
  python3: (host: string, port: number): Command => ({
    cmd: 'python3',
    args: ['-c', pythonConnect, host, String(port)],
  }),
  node: (host: string, port: number): Command => ({
    cmd: 'node',
    args: ['-e', nodeConnect, host, String(port)],
  }),
}

const pythonConnect = `
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
try:
    connection = socket.create_connection((host, port), 10)
    connection.sendall(f'GET / HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n'.encode())
    answered = connection.recv(1)
except OSError as error:
    sys.exit(1)
if not answered:
    sys.exit(1)
print('open', flush=True)
connection.settimeout(None)
try:
    while connection.recv(65536):
        pass
except OSError:
    pass
print('closed', flush=True)`

const nodeConnect = `
const [host, port] = process.argv.slice(1)
let answered = false
const connection = require('node:net').connect(Number(port), host, () =>
  connection.write('GET / HTTP/1.1\\r\\nHost: ' + host + ':' + port + '\\r\\n\\r\\n'))
const limit = setTimeout(() => connection.destroy(), 10000)
connection.on('data', () => {
  if (answered) return
  answered = true
  clearTimeout(limit)
  console.log('open')
})
connection.on('error', () => {})
connection.on('end', () => connection.end())
connection.on('close', () => {
  clearTimeout(limit)
  if (answered) console.log('closed')
  process.exitCode = answered ? 0 : 1
})`
