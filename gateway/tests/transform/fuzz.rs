//! Bytes that a sandbox makes up. `FUZZ_ROUNDS` sets how many connections are tried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::rig::*;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

const PARTS: [&str; 26] = [
    "GET / HTTP/1.1\r\n",
    "POST /a HTTP/1.1\r\n",
    "GET https://api.test/ HTTP/1.1\r\n",
    "GET https://evil.test/ HTTP/1.0\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "CONNECT api.test:443 HTTP/1.1\r\n",
    "Host: api.test\r\n",
    "Host: api.test\r\n\r\n",
    "Host: evil.test\r\n",
    "Authorization: own\r\n",
    "Connection: authorization, close\r\n",
    "Connection: upgrade\r\nUpgrade: websocket\r\n",
    "Upgrade: h2c\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "TE: trailers\r\nTrailer: authorization\r\n",
    "\r\n",
    "\r\n\r\n",
    "5\r\nhello\r\n",
    "0\r\n",
    "0\r\nAuthorization: own\r\n\r\n",
    "hello",
    "\n",
    " ",
];

/// The connection preface and SETTINGS, then a HEADERS frame for `GET https://api.test/`.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x0d\x01\x05\x00\x00\x00\x01\x82\x87\x84\x41\x08api.test";

fn bytes(random: &mut Random, http2: bool) -> Vec<u8> {
    let mut bytes: Vec<u8> = if http2 {
        let mut frames = HTTP2.to_vec();
        for stream in (3..3 + 2 * random.below(6)).step_by(2) {
            frames.extend_from_slice(&HTTP2[33..42]);
            let at = frames.len() - 1;
            frames[at] = stream as u8;
            frames.extend_from_slice(&HTTP2[42..]);
        }
        frames
    } else {
        (0..3 + random.below(12))
            .flat_map(|_| PARTS[random.below(PARTS.len())].bytes())
            .collect()
    };
    let fixed = if http2 { 24 } else { 0 };
    for _ in 0..random.below(4) {
        let at = fixed + random.below(bytes.len() - fixed);
        match random.below(3) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes.insert(at, random.below(256) as u8),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_bytes() -> Result {
    let rounds: u64 = std::env::var("FUZZ_ROUNDS").map_or(400, |text| text.parse().unwrap());
    let world = World::new();
    let arrived = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&arrived);
    let port = upstream(world.acceptor(&["h2", "http/1.1"]), move |request| {
        counter.fetch_add(1, SeqCst);
        let value = request
            .headers()
            .get_all("authorization")
            .iter()
            .map(|value| value.as_bytes().to_vec());
        let value = value.collect::<Vec<_>>();
        let host = request
            .uri()
            .host()
            .or(request.headers().get("host").and_then(|host| host.to_str().ok()));
        let good = value == [format!("Bearer {SECRET}").into_bytes()] && host == Some(HOST);
        async move {
            assert!(good, "a request without our header arrived");
            Ok(Response::new(body(value.concat())))
        }
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    for round in 0..rounds {
        let http2 = round % 2 == 0;
        let sent = bytes(&mut Random(0x9e37_79b9 + round * 7919), http2);
        let (mut client, served) = gateway.tls(&[if http2 { "h2" } else { "http/1.1" }]).await?;
        client.write_all(&sent).await?;
        let mut answer = Vec::new();
        let _ = timeout(Duration::from_millis(20), client.read_to_end(&mut answer)).await;
        let _ = client.shutdown().await;
        drop(client);
        let ended = timeout(Duration::from_secs(10), served)
            .await
            .map_err(|_| format!("round {round} hangs"))?;
        assert!(
            ended.is_ok(),
            "round {round} panicked: {:?}",
            String::from_utf8_lossy(&sent)
        );
        let secret = answer
            .windows(SECRET.len())
            .any(|window| window == SECRET.as_bytes());
        assert!(!secret, "round {round}: {:?}", String::from_utf8_lossy(&answer));
    }
    let events = gateway.events.lock().unwrap();
    let allowed = events.iter().filter(|event| event.reason.is_none()).count();
    assert!(
        allowed > rounds as usize / 8,
        "only {allowed} requests were valid"
    );
    assert!(arrived.load(SeqCst) >= allowed);
    Ok(())
}
