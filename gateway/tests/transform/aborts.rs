//! Either side goes away in the middle.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::http2::channel;
use crate::rig::*;

const SOON: Duration = Duration::from_secs(5);

/// A body that the upstream does not finish must not look finished.
#[tokio::test]
async fn the_upstream_within_a_body() -> Result {
    let world = World::new();
    for head in ["content-length: 100", "transfer-encoding: chunked"] {
        let port = raw_upstream(world.acceptor(&["http/1.1"]), move |mut stream| async move {
            read_head(&mut stream).await?;
            stream
                .write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n").as_bytes())
                .await?;
            Ok(())
        })
        .await?;
        let gateway = Gateway::new(&world, port, bearer());
        let response = gateway.http1().await?.send_request(get("/")).await?;
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err(), "{head}");
        let (mut client, _) = gateway.tls(&["http/1.1"]).await?;
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
            .await?;
        let mut raw = Vec::new();
        let _ = client.read_to_end(&mut raw).await;
        assert!(
            !raw.ends_with(b"0\r\n\r\n"),
            "{head}: {}",
            String::from_utf8_lossy(&raw)
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_upstream_within_a_stream() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["h2"]), |_| async {
        // Apart, because a reset drops what waits to be sent.
        let frames = [Ok(Frame::data(Bytes::from("hello"))), Err("broken".into())];
        let frames = tokio_stream::StreamExt::throttle(tokio_stream::iter(frames), SOON / 50);
        Ok(Response::new(
            http_body_util::StreamBody::new(frames).boxed_unsync(),
        ))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http2().await?;
    for _ in 0..3 {
        // The other streams of the connection live on.
        let response = client.send_request(get("https://api.test/")).await?;
        assert!(response.into_body().collect().await.is_err());
    }
    Ok(())
}

/// Of a kept connection, so a client repeats the request as it would without the gateway.
#[tokio::test]
async fn the_upstream_between_requests() -> Result {
    let world = World::new();
    let port = raw_upstream(world.acceptor(&["http/1.1"]), |mut stream| async move {
        read_head(&mut stream).await?;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await?;
        read_head(&mut stream).await?;
        Ok(())
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http1().await?;
    assert_eq!(text(client.send_request(get("/")).await?).await?, "ok");
    client.ready().await?;
    let error = client.send_request(get("/")).await.unwrap_err();
    assert!(
        error.is_incomplete_message() || error.is_closed() || error.is_canceled(),
        "{error:?}"
    );
    assert_eq!(gateway.reasons(), [None, Some("upstream_failed")]);
    Ok(())
}

#[tokio::test]
async fn an_upstream_that_closes_closes_the_client() -> Result {
    let world = World::new();
    for head in [
        "connection: close\r\ncontent-length: 2",
        "content-length: 2",
        "x: y",
    ] {
        let port = raw_upstream(world.acceptor(&["http/1.1"]), move |mut stream| async move {
            read_head(&mut stream).await?;
            stream
                .write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nok").as_bytes())
                .await?;
            stream.shutdown().await?;
            Ok(())
        })
        .await?;
        let gateway = Gateway::new(&world, port, bearer());
        let (mut client, served) = gateway.tls(&["http/1.1"]).await?;
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
            .await?;
        let mut raw = String::new();
        timeout(SOON, client.read_to_string(&mut raw)).await??;
        assert!(raw.contains("ok"), "{raw}");
        assert_eq!(timeout(SOON, served).await??.unwrap().requests, 1);
    }
    Ok(())
}

/// An upstream that reports when its connection or stream ended.
async fn watched(world: &World, alpn: &str) -> Result<(u16, mpsc::UnboundedReceiver<&'static str>)> {
    let (events, seen) = mpsc::unbounded_channel();
    let port = upstream(world.acceptor(&[alpn]), move |request| {
        let events = events.clone();
        async move {
            let (sender, reply) = channel();
            tokio::spawn(async move {
                let mut incoming = request.into_body();
                let _ = events.send("began");
                while let Some(Ok(_)) = incoming.frame().await {}
                let _ = events.send("upload ended");
                sender.closed().await;
                let _ = events.send("download ended");
            });
            Ok(Response::new(reply))
        }
    })
    .await?;
    Ok((port, seen))
}

#[tokio::test]
async fn the_client_within_a_stream() -> Result {
    let world = World::new();
    let (port, mut seen) = watched(&world, "h2").await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http2().await?;
    for _ in 0..3 {
        let (sender, upload) = channel();
        sender.send(Frame::data("part".into()))?;
        let response = client
            .send_request(request("PUT", "https://api.test/", upload))
            .await?;
        assert_eq!(timeout(SOON, seen.recv()).await?, Some("began"));
        drop(response);
        drop(sender);
        for expected in ["upload ended", "download ended"] {
            assert_eq!(timeout(SOON, seen.recv()).await?, Some(expected));
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_client() -> Result {
    let world = World::new();
    let (port, mut seen) = watched(&world, "http/1.1").await?;
    let gateway = Gateway::new(&world, port, bearer());
    for head in [
        "content-length: 100\r\n\r\npart",
        "transfer-encoding: chunked\r\n\r\n4\r\npart\r\n",
        "\r\n",
    ] {
        for clean in [true, false] {
            let (mut client, served) = gateway.tls(&["http/1.1"]).await?;
            client
                .write_all(format!("PUT / HTTP/1.1\r\nHost: api.test\r\n{head}").as_bytes())
                .await?;
            read_head(&mut client).await?;
            while timeout(SOON, seen.recv()).await? != Some("began") {}
            if clean {
                client.shutdown().await?;
            }
            drop(client);
            // The end of the download is not awaited: hyper sees it only when it writes.
            while timeout(SOON, seen.recv()).await? != Some("upload ended") {}
            timeout(SOON, served)
                .await
                .map_err(|_| format!("{head:?} {clean}"))??
                .ok();
        }
    }
    Ok(())
}

/// How the gateway ends connections that a new policy does not allow.
#[tokio::test]
async fn the_caller_drops_the_connection() -> Result {
    let world = World::new();
    for alpn in ["http/1.1", "h2"] {
        let (port, mut seen) = watched(&world, alpn).await?;
        let gateway = Gateway::new(&world, port, bearer());
        let (tls, served) = gateway.tls(&[alpn]).await?;
        let io = hyper_util::rt::TokioIo::new(tls);
        let pending = if alpn == "h2" {
            let (mut client, connection) =
                hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            client.send_request(get("https://api.test/")).await?
        } else {
            let (mut client, connection) = hyper::client::conn::http1::handshake(io).await?;
            tokio::spawn(connection);
            client.send_request(get("/")).await?
        };
        assert_eq!(timeout(SOON, seen.recv()).await?, Some("began"));
        served.abort();
        assert!(timeout(SOON, pending.into_body().collect()).await?.is_err());
        for expected in ["upload ended", "download ended"] {
            assert_eq!(timeout(SOON, seen.recv()).await?, Some(expected), "{alpn}");
        }
    }
    Ok(())
}
