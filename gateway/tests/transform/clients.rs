//! Programs that sandboxes use, as far as they are installed.

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use http::Response;
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::rig::*;

/// A folder with the authority's certificate, and a proxy that hands every connection to the broker: clients of
/// `https://api.test/` need no name service and no port 443.
pub struct Client {
    pub folder: PathBuf,
    proxy: u16,
    /// Takes TLS at once, for clients that cannot use a proxy.
    direct: u16,
}

impl Client {
    pub async fn new(gateway: Gateway) -> Result<Client> {
        let gateway = Arc::new(gateway);
        let proxy = TcpListener::bind("127.0.0.1:0").await?;
        let direct = TcpListener::bind("127.0.0.1:0").await?;
        let folder = std::env::temp_dir().join(format!(
            "broker-{}-{}",
            std::process::id(),
            proxy.local_addr()?.port()
        ));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("ca.pem"), &gateway.ca.cert)?;
        let client = Client {
            folder,
            proxy: proxy.local_addr()?.port(),
            direct: direct.local_addr()?.port(),
        };
        let shared = Arc::clone(&gateway);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = proxy.accept().await {
                let gateway = Arc::clone(&shared);
                tokio::spawn(async move {
                    assert!(
                        read_head(&mut stream)
                            .await?
                            .unwrap()
                            .starts_with("CONNECT api.test:443 ")
                    );
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                    gateway.serve(stream).await?;
                    Result::Ok(())
                });
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = direct.accept().await {
                gateway.serve(stream).await?;
            }
            Result::Ok(())
        });
        Ok(client)
    }

    /// Runs a program in the folder, or returns `None` if it is not installed.
    pub async fn run(&self, program: &str, args: &[&str]) -> Result<Option<Output>> {
        let proxy = format!("http://127.0.0.1:{}", self.proxy);
        let ca = self.folder.join("ca.pem");
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.folder)
            .env_clear()
            .kill_on_drop(true);
        for name in ["PATH", "PYENV_VERSION", "PYENV_ROOT"] {
            if let Ok(value) = std::env::var(name) {
                command.env(name, value);
            }
        }
        command
            .env("HOME", &self.folder)
            .env("https_proxy", &proxy)
            .env("HTTPS_PROXY", &proxy);
        command
            .env("NODE_USE_ENV_PROXY", "1")
            .env("DIRECT", self.direct.to_string());
        for name in [
            "NODE_EXTRA_CA_CERTS",
            "CURL_CA_BUNDLE",
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "GIT_SSL_CAINFO",
        ] {
            command.env(name, &ca);
        }
        match command.output().await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: {program} is not installed");
                Ok(None)
            }
            output => Ok(Some(output?)),
        }
    }

    /// The program's output, which must not have the secret.
    pub async fn output(&self, program: &str, args: &[&str]) -> Result<Option<String>> {
        let Some(output) = self.run(program, args).await? else {
            return Ok(None);
        };
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{program}: {out}{err}");
        assert!(
            !out.contains(SECRET) && !err.contains(SECRET),
            "{program} knows the secret: {out}{err}"
        );
        Ok(Some(out.into_owned()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Answers with the version, the method, the length of the body, and the headers as they came.
async fn echo(world: &World) -> Result<Client> {
    let port = upstream(world.acceptor(&["h2", "http/1.1"]), |request| async move {
        assert_eq!(
            request.headers()["authorization"],
            format!("Bearer {SECRET}").as_str()
        );
        let head = format!(
            "{:?} {} {:?}",
            request.version(),
            request.method(),
            request.headers()["authorization"]
        );
        let length = request.into_body().collect().await?.to_bytes().len();
        Ok(Response::new(body(format!("{length} {head}"))))
    })
    .await?;
    Client::new(Gateway::new(world, port, bearer())).await
}

fn expected(length: usize, version: &str, method: &str) -> String {
    format!(
        "{length} {version} {method} \"Bearer {}\"",
        "*".repeat(SECRET.len())
    )
}

const URL: &str = "https://api.test/path";

#[tokio::test(flavor = "multi_thread")]
async fn curl() -> Result {
    let world = World::new();
    let client = echo(&world).await?;
    std::fs::write(client.folder.join("upload"), vec![b'x'; 3_000_000])?;
    for (flag, version) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2.0")] {
        let common = [
            "--silent",
            "--show-error",
            "--verbose",
            "--fail",
            flag,
            "-H",
            "Authorization: placeholder",
        ];
        if let Some(out) = client.output("curl", &[&common[..], &[URL]].concat()).await? {
            assert_eq!(out, expected(0, version, "GET"));
        }
        // With Expect: 100-continue on HTTP/1.1.
        if let Some(out) = client
            .output("curl", &[&common[..], &["-T", "upload", URL]].concat())
            .await?
        {
            assert_eq!(out, expected(3_000_000, version, "PUT"));
        }
        let twice = [&common[..], &[URL, URL]].concat();
        if let Some(out) = client.output("curl", &twice).await? {
            assert_eq!(out, expected(0, version, "GET").repeat(2));
        }
    }
    Ok(())
}

/// The repository's Node. Older ones do not use a proxy from the environment.
fn node() -> Option<String> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../node_modules/.bin/node");
    if std::path::Path::new(own).exists() {
        return Some(own.into());
    }
    eprintln!("skipped: npm install has not run");
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn node_fetch() -> Result {
    let Some(node) = node() else { return Ok(()) };
    let world = World::new();
    let client = echo(&world).await?;
    let script = "
        const get = await fetch('https://api.test/path', { headers: { authorization: 'placeholder' } })
        const put = await fetch('https://api.test/path', { method: 'PUT', body: 'x'.repeat(2e6) })
        console.log(await get.text() + await put.text())";
    if let Some(out) = client
        .output(&node, &["--input-type=module", "-e", script])
        .await?
    {
        let both = [
            expected(0, "HTTP/1.1", "GET"),
            expected(2_000_000, "HTTP/1.1", "PUT"),
        ]
        .concat();
        assert_eq!(out.trim(), both);
    }
    let script = "
        const session = require('http2').connect('https://api.test', {
          createConnection: () => require('tls').connect({
            port: +process.env.DIRECT, servername: 'api.test', ALPNProtocols: ['h2'] }) })
        session.request({ ':path': '/path' }).on('data', (data) => process.stdout.write(data)).on('end', () => session.close())";
    if let Some(out) = client.output(&node, &["-e", script]).await? {
        assert_eq!(out, expected(0, "HTTP/2.0", "GET"));
    }
    Ok(())
}

const PYTHON: &str = "
import urllib.request
request = urllib.request.Request('https://api.test/path', headers={'Authorization': 'placeholder'})
print(urllib.request.urlopen(request).read().decode())
try:
    import requests
except ImportError:
    raise SystemExit
session = requests.Session()
for _ in range(3):
    print(session.put('https://api.test/path', data=iter([b'x' * 1000] * 500)).text)
";

#[tokio::test(flavor = "multi_thread")]
async fn python() -> Result {
    let world = World::new();
    let client = echo(&world).await?;
    if let Some(out) = client.output("python3", &["-c", PYTHON]).await? {
        let mut lines = out.lines();
        assert_eq!(lines.next(), Some(&*expected(0, "HTTP/1.1", "GET")));
        assert!(lines.all(|line| line == expected(500_000, "HTTP/1.1", "PUT")));
    }
    Ok(())
}

/// Both ends are real: `ws` behind TLS, and `ws` and Node's own client inside.
#[tokio::test(flavor = "multi_thread")]
async fn websockets_of_node() -> Result {
    let Some(node) = node() else { return Ok(()) };
    let world = World::new();
    let modules = concat!(env!("CARGO_MANIFEST_DIR"), "/../node_modules");
    let (cert, key) = world.pem(HOST);
    let folder = std::env::temp_dir().join(format!("broker-ws-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("cert.pem"), cert)?;
    std::fs::write(folder.join("key.pem"), key)?;
    let mut server = Command::new(&node);
    server
        .args(["-e", WS_SERVER])
        .current_dir(&folder)
        .env("NODE_PATH", modules)
        .kill_on_drop(true);
    let mut server = server.stdout(std::process::Stdio::piped()).spawn()?;
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(server.stdout.take().unwrap()));
    let port = lines.next_line().await?.unwrap().parse()?;
    std::fs::remove_dir_all(&folder)?;
    let client = Client::new(Gateway::new(&world, port, bearer())).await?;
    let script = format!("module.paths.push({modules:?});{WS_CLIENT}");
    let out = client.output(&node, &["-e", &script]).await?.unwrap();
    assert_eq!(
        out,
        format!(
            "Bearer {}\nends with t\nbinary 1000000\n",
            "*".repeat(SECRET.len())
        )
    );
    server.kill().await?;
    Ok(())
}

const WS_SERVER: &str = "
const { readFileSync } = require('fs')
const { WebSocketServer } = require('ws')
const server = require('https').createServer({ cert: readFileSync('cert.pem'), key: readFileSync('key.pem') })
new WebSocketServer({ server, perMessageDeflate: true }).on('connection', (socket, request) => {
  socket.send(request.headers.authorization)
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))";

const WS_CLIENT: &str = "
const WebSocket = require('ws')
const socket = new WebSocket('wss://127.0.0.1:' + process.env.DIRECT, {
  servername: 'api.test', headers: { host: 'api.test', authorization: 'placeholder' },
  ca: require('fs').readFileSync('ca.pem'), checkServerIdentity: (_, cert) => require('tls').checkServerIdentity('api.test', cert) })
const steps = [
  (data) => { console.log(data.toString()); socket.send('ends with t') },
  (data) => { console.log(data.toString()); socket.send(Buffer.alloc(1000000, 7)) },
  (data) => { console.log('binary', data.length); socket.close() },
]
socket.on('message', (data) => steps.shift()(data))";
