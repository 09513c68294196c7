//! HTTP/1.1 from the sandbox to the upstream.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::rig::*;

/// An upstream that answers every request with what `answer` makes of its head, and passes the head on.
async fn upstream(
    world: &World,
    answer: fn(&str) -> String,
) -> Result<(u16, mpsc::UnboundedReceiver<String>)> {
    let (seen, heads) = mpsc::unbounded_channel();
    let port = raw_upstream(world.acceptor(&["http/1.1"]), move |mut stream| {
        let seen = seen.clone();
        async move {
            while let Some(head) = read_head(&mut stream).await? {
                stream.write_all(answer(&head).as_bytes()).await?;
                let _ = seen.send(head);
            }
            Ok(())
        }
    })
    .await?;
    Ok((port, heads))
}

#[tokio::test]
async fn sets_the_header_and_removes_the_sandboxes_own() -> Result {
    let world = World::new();
    let (port, mut heads) = upstream(&world, |_| {
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".into()
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let (mut client, _) = gateway.tls(&["http/1.1"]).await?;
    client
        .write_all(
            b"GET /repos/a?b=c HTTP/1.1\r\nHost: API.test:443\r\nAUTHORIZATION: placeholder\r\n\
              authorization: two\r\nX-Own: 1\r\nConnection: x-own, authorization\r\n\r\n",
        )
        .await?;
    let response = read_head(&mut client).await?.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let head = heads.recv().await.unwrap();
    assert!(head.starts_with("GET /repos/a?b=c HTTP/1.1\r\n"), "{head}");
    assert_eq!(values(&head, "authorization"), [format!("Bearer {SECRET}")]);
    assert_eq!(values(&head, "host"), [HOST]);
    assert_eq!(values(&head, "x-own"), [""; 0]);
    let events = gateway.events.lock().unwrap();
    assert_eq!(
        (
            events[0].method.as_str(),
            events[0].path.as_str(),
            events[0].status
        ),
        ("GET", "/repos/a", 200)
    );
    Ok(())
}

#[tokio::test]
async fn replaces_the_secret_in_head_and_body() -> Result {
    let world = World::new();
    let (port, _heads) = upstream(&world, |head| {
        let value = values(head, "authorization").remove(0);
        format!(
            "HTTP/1.1 401 No\r\nlocation: /?t={value}\r\ncontent-length: {}\r\n\r\n{value}",
            value.len()
        )
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let (mut client, served) = gateway.tls(&["http/1.1"]).await?;
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
        .await?;
    let mut response = String::new();
    client.read_to_string(&mut response).await?;
    let masked = format!("Bearer {}", "*".repeat(SECRET.len()));
    assert_eq!(values(&response, "location"), [format!("/?t={masked}")]);
    assert!(response.ends_with(&format!("\r\n\r\n{masked}")), "{response}");
    let totals = served.await?.unwrap();
    assert_eq!(totals.requests, 1);
    assert!(totals.bytes_in > response.len() as u64 && totals.bytes_out > 60);
    Ok(())
}

/// Servers that follow CGI read `X_Api_Key` and `X-Api-Key` as one header, and some merge trailers into headers.
#[tokio::test]
async fn removes_look_alikes_and_trailers() -> Result {
    let world = World::new();
    let (port, mut heads) =
        upstream(&world, |_| "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()).await?;
    let rules = transforms(serde_json::json!([
        { "match": { "host": HOST }, "headers": { "X-Api-Key": { "secret": "token" } } }
    ]));
    let gateway = Gateway::new(&world, port, rules);
    let (mut client, _) = gateway.tls(&["http/1.1"]).await?;
    client
        .write_all(
            b"POST / HTTP/1.1\r\nHost: api.test\r\nX_Api_Key: own\r\nx-api_key: own\r\nX-Api-Keys: kept\r\n\
              Trailer: x-api-key, x-kept\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Api-Key: own\r\nX-Kept: 1\r\n\r\n",
        )
        .await?;
    assert!(read_head(&mut client).await?.unwrap().starts_with("HTTP/1.1 200"));
    let head = heads.recv().await.unwrap();
    assert_eq!(values(&head, "x-api-key"), [SECRET]);
    assert_eq!(values(&head, "x-api-keys"), ["kept"]);
    assert!(
        !head.to_lowercase().contains("x_api_key") && !head.to_lowercase().contains("x-api_key"),
        "{head}"
    );
    // The second head that the upstream read is the body with its trailers.
    client
        .write_all(b"GET /next HTTP/1.1\r\nHost: api.test\r\n\r\n")
        .await?;
    let trailers = heads.recv().await.unwrap();
    assert!(trailers.to_lowercase().contains("x-kept: 1"), "{trailers}");
    assert!(!trailers.contains("own"), "{trailers}");
    Ok(())
}

#[tokio::test]
async fn keeps_responses_without_a_body() -> Result {
    let world = World::new();
    let (port, _heads) = upstream(&world, |head| match &head[..5] {
        "HEAD " => "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n".into(),
        _ => "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncontent-length: 5000\r\n\r\n".into(),
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let (mut client, _) = gateway.tls(&["http/1.1"]).await?;
    for method in ["HEAD", "GET", "HEAD"] {
        client
            .write_all(format!("{method} / HTTP/1.1\r\nHost: api.test\r\n\r\n").as_bytes())
            .await?;
        let head = read_head(&mut client).await?.unwrap();
        assert_eq!(values(&head, "transfer-encoding"), [""; 0], "{head}");
        assert!(
            method != "HEAD" || values(&head, "content-length") == ["5000"],
            "{head}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn serves_http_1_0() -> Result {
    let world = World::new();
    let (port, _heads) = upstream(&world, |_| {
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".into()
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let (mut client, _) = gateway.tls(&[]).await?;
    client
        .write_all(b"GET / HTTP/1.0\r\nHost: api.test\r\n\r\n")
        .await?;
    let mut response = String::new();
    client.read_to_string(&mut response).await?;
    assert!(response.ends_with("\r\n\r\nhello"), "{response}");
    Ok(())
}
