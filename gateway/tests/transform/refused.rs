//! Requests and responses that are not passed on.

use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::*;

#[tokio::test]
async fn another_host_on_the_second_request() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["http/1.1"]), |request| async move {
        assert_eq!(request.headers()["host"], HOST);
        Ok(Response::new(body("ok")))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    for second in [
        "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.test:8443\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.test.\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.test\r\nHost: evil.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.test\r\nHost: api.test\r\n\r\n",
        "GET https://evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET http://api.test@evil.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
        "GET https://api.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "CONNECT evil.test:443 HTTP/1.1\r\nHost: api.test\r\n\r\n",
    ] {
        let (mut client, _) = gateway.tls(&["http/1.1"]).await?;
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
            .await?;
        assert!(read_head(&mut client).await?.unwrap().starts_with("HTTP/1.1 200"));
        client.read_exact(&mut [0; 2]).await?;
        client.write_all(second.as_bytes()).await?;
        let head = read_head(&mut client).await?.unwrap();
        assert!(head.starts_with("HTTP/1.1 421"), "{second}: {head}");
    }
    assert_eq!(
        gateway
            .reasons()
            .iter()
            .filter(|reason| **reason == Some("host_mismatch"))
            .count(),
        10
    );
    Ok(())
}

#[tokio::test]
async fn connect_to_the_host_itself() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["http/1.1"]), |_| async {
        Ok(Response::new(body("ok")))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let (mut client, _) = gateway.tls(&["http/1.1"]).await?;
    client
        .write_all(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        .await?;
    assert!(read_head(&mut client).await?.unwrap().starts_with("HTTP/1.1 405"));
    assert_eq!(gateway.reasons(), [Some("connect_refused_by_policy")]);
    Ok(())
}

/// The sandbox may not choose an encoding or pieces in which its secret would not be found.
#[tokio::test]
async fn what_would_hide_a_secret() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["http/1.1"]), |request| async move {
        assert_eq!(request.headers()["accept-encoding"], "identity");
        assert!(!request.headers().contains_key("range") && !request.headers().contains_key("if-range"));
        let head = Response::builder().header("content-encoding", request.uri().path()[1..].to_owned());
        Ok(head.header("alt-svc", "h3=\":443\"").body(body("compressed"))?)
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    for (encoding, status) in [
        ("gzip", 502),
        ("br", 502),
        ("identity, gzip", 502),
        ("identity", 200),
        ("", 200),
    ] {
        let mut request = get("/");
        *request.uri_mut() = format!("/{}", encoding.replace(", ", ",")).parse()?;
        for (name, value) in [
            ("accept-encoding", "br"),
            ("range", "bytes=0-3"),
            ("if-range", "\"a\""),
        ] {
            request.headers_mut().insert(name, value.parse()?);
        }
        let response = gateway.http1().await?.send_request(request).await?;
        assert_eq!(response.status(), status, "{encoding}");
        assert!(!response.headers().contains_key("alt-svc"));
    }
    assert_eq!(gateway.reasons()[0], Some("encoding_refused"));
    // A HEAD response has no body, whatever it says.
    let response = gateway
        .http1()
        .await?
        .send_request(request("HEAD", "/gzip", body("")))
        .await?;
    assert_eq!(response.status(), 200);
    // Without secrets there is nothing to find.
    let literal = transforms(serde_json::json!([{ "match": { "host": HOST }, "headers": { "x-a": "1" } }]));
    let gateway = Gateway::with(&world, port, literal, secrets(&[]));
    let mut plain = get("/gzip");
    plain.headers_mut().insert("accept-encoding", "identity".parse()?);
    assert_eq!(gateway.http1().await?.send_request(plain).await?.status(), 200);
    Ok(())
}

#[tokio::test]
async fn an_upstream_that_speaks_no_http() -> Result {
    let world = World::new();
    for answer in [
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: 1\r\n b\r\n\r\n",
        "",
    ] {
        let port = raw_upstream(world.acceptor(&["http/1.1"]), move |mut stream| async move {
            read_head(&mut stream).await?;
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
            Ok(())
        })
        .await?;
        let gateway = Gateway::new(&world, port, bearer());
        let response = gateway.http1().await?.send_request(get("/")).await?;
        assert_eq!(response.status(), 502, "{answer}");
        assert_eq!(gateway.reasons(), [Some("upstream_failed")]);
    }
    Ok(())
}
