/** Real clients, each with a server that wants a secret. The sandbox has none: the gateway adds it. */
export interface Client {
  readonly name: string
  readonly host: string
  /** A shell script in an empty folder. It must print `works` at its end. All its output is searched for the secret. */
  readonly script: string
  /** A program that must be there. */
  readonly needs: string
  readonly basic?: string
}

const java = `
import java.net.*; import java.net.http.*;
public class Main { public static void main(String[] a) throws Exception {
  var answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create("https://java.allowed.example/echo")).build(), HttpResponse.BodyHandlers.ofString());
  System.out.println(answer.body()); if (answer.statusCode() == 200) System.out.println("works"); } }`

/** Compiled outside, because the standard library takes longer to compile than all other clients together. */
export const goProgram = `
package main
import ("fmt"; "io"; "net/http")
func main() { r, err := http.Get("https://goclient.allowed.example/echo"); if err != nil { panic(err) }
  b, _ := io.ReadAll(r.Body); fmt.Println(string(b), r.Header); if r.StatusCode == 200 { fmt.Println("works") } }`

export const clients: readonly Client[] = [
  {
    name: 'git clone and push',
    host: 'git.allowed.example',
    needs: 'git',
    basic: 'tester',
    script: `
export GIT_TRACE=1 GIT_TRACE_CURL=1 GIT_TRACE_CURL_NO_DATA=0 GIT_TRACE_REDACT=0 GIT_TERMINAL_PROMPT=0
git clone https://git.allowed.example/project.git
cd project && git checkout -q -B main && echo leaf > file && git add file
git -c user.name=t -c user.email=t@example commit -qm first && git push origin main
cd .. && git clone https://git.allowed.example/project.git again && grep leaf again/file && echo works`,
  },
  {
    name: 'npm install',
    host: 'npm.allowed.example',
    needs: 'npm',
    script: `
echo '{}' > package.json
npm install leaf --registry https://npm.allowed.example/ --loglevel silly --no-audit --no-fund --no-update-notifier
cat "$HOME"/.npm/_logs/* ; node -e 'if (require("leaf") === "node") console.log("works")'`,
  },
  {
    name: 'pip install',
    host: 'pypi.allowed.example',
    needs: 'pip',
    script: `
python3 -m pip -vvv --no-cache-dir --disable-pip-version-check install --target site --index-url https://pypi.allowed.example/simple leaf
PYTHONPATH=site python3 -c 'import leaf; print("works" if leaf.LEAF == "python" else "")'`,
  },
  {
    name: 'cargo fetch',
    host: 'crates.allowed.example',
    needs: 'cargo',
    script: `
export CARGO_HOME=$PWD/home CARGO_HTTP_DEBUG=true CARGO_LOG=network=trace,cargo::ops::registry=debug
mkdir -p src .cargo && echo 'fn main() { println!("{}", leaf::LEAF) }' > src/main.rs
printf '[registries.world]\\nindex = "sparse+https://crates.allowed.example/"\\n' > .cargo/config.toml
printf '[package]\\nname = "p"\\nversion = "0.1.0"\\nedition = "2021"\\n[dependencies]\\nleaf = { version = "1", registry = "world" }\\n' > Cargo.toml
cargo fetch -vv && ls home/registry/cache/*/leaf-1.0.0.crate && echo works`,
  },
  {
    name: 'curl',
    host: 'curl.allowed.example',
    needs: 'curl',
    script:
      'curl -sS -v --trace-ascii trace https://curl.allowed.example/echo; cat trace; grep -q 200 trace && echo works',
  },
  {
    name: 'Node fetch',
    host: 'fetch.allowed.example',
    needs: 'node',
    script: `
NODE_DEBUG=http,https,tls,net,undici node -e '
fetch("https://fetch.allowed.example/echo").then(async (r) => { console.log([...r.headers], await r.text()); if (r.ok) console.log("works") })'`,
  },
  {
    name: 'Node WebSocket',
    host: 'socket.allowed.example',
    needs: 'node',
    script: `
node -e '
const s = new WebSocket("wss://socket.allowed.example/ws"); s.onopen = () => s.send("works")
s.onmessage = ({ data }) => { console.log(data); s.close() }; s.onerror = (e) => { console.log(e.message); process.exit(1) }'`,
  },
  {
    name: 'Python requests',
    host: 'requests.allowed.example',
    needs: 'requests',
    script: `
python3 -c '
import http.client; http.client.HTTPConnection.debuglevel = 2
import requests; r = requests.get("https://requests.allowed.example/echo"); print(r.headers, r.text)
if r.ok: print("works")'`,
  },
  {
    name: 'Python urllib',
    host: 'urllib.allowed.example',
    needs: 'python3',
    script: `python3 -c 'import urllib.request; print(urllib.request.urlopen("https://urllib.allowed.example/echo").read(), "works")'`,
  },
  {
    name: 'go modules',
    host: 'go.allowed.example',
    needs: 'go',
    script: `
export GOPATH=$PWD/gopath GOCACHE=$PWD/cache GOPROXY=https://go.allowed.example GONOSUMDB='*' GOTOOLCHAIN=local GOFLAGS=-mod=mod GODEBUG=http2debug=2
printf 'module p\\n\\ngo 1.20\\n\\nrequire go.allowed.example/leaf v1.0.0\\n' > go.mod
go mod download -x && ls gopath/pkg/mod/go.allowed.example/leaf@v1.0.0/leaf.go && echo works`,
  },
  {
    name: 'Go',
    host: 'goclient.allowed.example',
    needs: 'go',
    script: 'GODEBUG=http2debug=2 /opt/go-client/go-client',
  },
  {
    name: 'Java',
    host: 'java.allowed.example',
    needs: 'java',
    script: `
cat > Main.java <<'END'
${java}
END
java -Djdk.httpclient.HttpClient.log=all -Xmx128m Main.java`,
  },
]
