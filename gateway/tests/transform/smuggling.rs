//! Requests that two parsers could read in two ways. The library refuses them, or what arrives upstream has one
//! meaning only.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::rig::*;

/// Sends bytes as they are. Returns what the client and the upstream got.
async fn exchange(world: &World, bytes: &[u8]) -> Result<(String, String)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let port = raw_upstream(world.acceptor(&["http/1.1"]), move |mut stream| {
        let record = Arc::clone(&record);
        async move {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                record.lock().unwrap().extend_from_slice(&buffer[..length]);
                if record.lock().unwrap().windows(4).any(|four| four == b"\r\n\r\n") {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                        .await?;
                }
            }
            Ok(())
        }
    })
    .await?;
    let gateway = Gateway::new(world, port, bearer());
    let (mut client, _) = gateway.tls(&["http/1.1"]).await?;
    client.write_all(bytes).await?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Ok(length @ 1..)) = timeout(Duration::from_millis(150), client.read(&mut buffer)).await {
        answer.extend_from_slice(&buffer[..length]);
    }
    let seen = String::from_utf8(seen.lock().unwrap().clone())?;
    Ok((String::from_utf8(answer)?, seen))
}

const HEAD: &str = "POST / HTTP/1.1\r\nHost: api.test\r\n";
const TAIL: &str = "GET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n";

#[tokio::test]
async fn dies_in_the_library() -> Result {
    let world = World::new();
    let cases = [
        "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "Content-Length: 4, 5\r\n\r\nabcde",
        "Content-Length: +4\r\n\r\nabcd",
        "Content-Length: -4\r\n\r\nabcd",
        "Content-Length: 0x4\r\n\r\nabcd",
        "Content-Length: 4 \x0b\r\n\r\nabcd",
        "Content-Length: 99999999999999999999\r\n\r\nabcd",
        "Content-Length : 4\r\n\r\nabcd",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        "X-A: b\r\n Content-Length: 4\r\n\r\nabcd",
        "X-A: b\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        " X-A: b\r\n\r\n",
        "X-A: b\0c\r\n\r\n",
        "X-\0A: b\r\n\r\n",
        "X-A: b\rContent-Length: 4\r\n\r\nabcd",
        "X A: b\r\n\r\n",
        ": b\r\n\r\n",
        "X-A\r\n\r\n",
        "X-A: b\x7f\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5x\r\nabcde\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\nabcde\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nabcde\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nabcdeX\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\nabcde\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5;a=\"\n\"\r\nabcde\r\n0\r\n\r\n",
    ];
    for case in cases {
        let (answer, seen) = exchange(&world, format!("{HEAD}{case}{TAIL}").as_bytes()).await?;
        assert!(
            !answer.starts_with("HTTP/1.1 2"),
            "{case:?} was answered: {answer}"
        );
        assert!(
            !seen.contains("smuggled") && !seen.contains("\r\n0\r\n"),
            "{case:?} arrived: {seen}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn bad_request_lines_die() -> Result {
    let world = World::new();
    for line in [
        "GET / HTTP/1.1\r\nHost: api.test\r\nHost:\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET / HTTP/1.1 HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: api.test\r\n\r\n",
        "GET / HTTP/1.9\r\nHost: api.test\r\n\r\n",
        "GET /\r\n\r\n",
        "GE\tT / HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET\t/\tHTTP/1.1\r\nHost: api.test\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let (answer, seen) = exchange(&world, line.as_bytes()).await?;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{line:?}: {answer}");
        assert_eq!(seen, "", "{line:?}");
    }
    let long = format!(
        "GET / HTTP/1.1\r\nHost: api.test\r\nX-A: {}\r\n\r\n",
        "a".repeat(100_000)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nHost: api.test\r\n{}\r\n",
        "X-A: a\r\n".repeat(500)
    );
    for head in [long, many] {
        let (answer, seen) = exchange(&world, head.as_bytes()).await?;
        assert!(answer.starts_with("HTTP/1.1 431") && seen.is_empty(), "{answer}");
    }
    Ok(())
}

/// HTTP lets a server read the chunks, if it drops the length and closes the connection.
#[tokio::test]
async fn two_lengths_become_one() -> Result {
    let world = World::new();
    for case in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "Content-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    ] {
        let (answer, seen) = exchange(&world, format!("{HEAD}{case}{TAIL}").as_bytes()).await?;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.to_lowercase().contains("\r\nconnection: close\r\n")
        );
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        assert_eq!(
            values(&seen, "transfer-encoding").len() + values(&seen, "content-length").len(),
            1,
            "{seen}"
        );
        assert!(!seen.contains("smuggled"), "{seen}");
    }
    Ok(())
}

/// What is allowed although it looks odd arrives in a form that has one meaning.
#[tokio::test]
async fn odd_but_valid_requests_arrive_normalized() -> Result {
    let world = World::new();
    for case in [
        "POST / HTTP/1.1\nHost: api.test\nContent-Length: 4\n\nabcd",
        "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: cHuNkEd\r\n\r\n4;x=y\r\nabcd\r\n0\r\nX-T: 1\r\n\r\n",
        "\r\n\r\nPOST / HTTP/1.1\r\nHost: api.test\r\nConnection: content-length, host\r\nContent-Length: 4\r\n\r\nabcd",
    ] {
        let (answer, seen) = exchange(&world, case.as_bytes()).await?;
        if answer.starts_with("HTTP/1.1 400") {
            assert_eq!(seen, "", "{case:?}");
            continue;
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{case:?}: {answer}");
        assert!(!seen.replace("\r\n", "").contains(['\n', '\r']), "{seen:?}");
        let lengths = values(&seen, "content-length").len() + values(&seen, "transfer-encoding").len();
        assert_eq!(lengths, 1, "{seen:?}");
        assert_eq!(values(&seen, "host"), [HOST]);
        assert_eq!(values(&seen, "authorization"), [format!("Bearer {SECRET}")]);
    }
    Ok(())
}

/// Pipelined requests are checked one by one.
#[tokio::test]
async fn pipelined_requests_are_all_checked() -> Result {
    let world = World::new();
    let good = "GET /good HTTP/1.1\r\nHost: api.test\r\n\r\n";
    let (answer, seen) = exchange(&world, format!("{good}{good}{TAIL}{good}").as_bytes()).await?;
    let statuses: Vec<&str> = answer
        .lines()
        .filter(|line| line.starts_with("HTTP/1.1 "))
        .map(|line| &line[9..12])
        .collect();
    assert_eq!(statuses, ["200", "200", "421", "200"]);
    assert_eq!(seen.matches("GET /good").count(), 3);
    assert!(!seen.contains("smuggled"));
    Ok(())
}
