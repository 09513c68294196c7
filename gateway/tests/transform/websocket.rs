//! WebSockets over HTTP/1.1. `clients.rs` has real clients.

use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::rig::*;

fn upgrade(protocol: &'static str) -> http::Request<Body> {
    let mut request = get("/chat");
    request
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
    request
        .headers_mut()
        .insert(UPGRADE, HeaderValue::from_static(protocol));
    request.headers_mut().insert(
        "sec-websocket-key",
        HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="),
    );
    request.headers_mut().insert(
        "sec-websocket-extensions",
        HeaderValue::from_static("permessage-deflate"),
    );
    request
}

/// A frame of a server: not masked.
fn frame(first: u8, data: &str) -> Vec<u8> {
    [&[first, data.len() as u8], data.as_bytes()].concat()
}

const TEXT: u8 = 0x81;
const FIRST: u8 = 0x01;
const LAST: u8 = 0x80;

/// Sends what it got back, after the upgrade. The tests give it frames of a server.
async fn echo(world: &World) -> Result<u16> {
    upstream(world.acceptor(&["http/1.1"]), |mut request| async move {
        assert_eq!(
            request.headers()["authorization"],
            format!("Bearer {SECRET}").as_str()
        );
        assert_eq!(request.headers()["upgrade"], "websocket");
        assert!(!request.headers().contains_key("sec-websocket-extensions"));
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgraded.await.unwrap());
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                stream.write_all(&buffer[..length]).await.unwrap();
            }
            stream.write_all(&frame(TEXT, "bye")).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let head = Response::builder()
            .status(101)
            .header("connection", "upgrade")
            .header("upgrade", "websocket");
        Ok(head
            .header("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            .body(body(""))?)
    })
    .await
}

#[tokio::test]
async fn tunnels_and_scrubs() -> Result {
    let world = World::new();
    let gateway = Gateway::new(&world, echo(&world).await?, bearer());
    let (tls, served) = gateway.tls(&["http/1.1"]).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection.with_upgrades());
    let mut response = sender.send_request(upgrade("websocket")).await?;
    assert_eq!(response.status(), 101);
    assert_eq!(
        response.headers()["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    assert_eq!(response.headers()["connection"], "Upgrade");
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await?);
    let mut reply = [0; 64];
    for message in ["hello", "ends in t", "ends in tok_", "x"] {
        let message = frame(TEXT, message);
        stream.write_all(&message).await?;
        let reply = &mut reply[..message.len()];
        timeout(Duration::from_secs(5), stream.read_exact(reply)).await??;
        assert_eq!(reply, message);
    }
    // The server cuts the secret: within a frame, and between two.
    let stars = "*".repeat(SECRET.len());
    let whole = frame(TEXT, SECRET);
    let (left, right) = SECRET.split_at(7);
    let cut = [frame(FIRST, left), frame(LAST, right)];
    let masked = [frame(FIRST, &stars[..7]), frame(LAST, &stars[7..])].concat();
    for (parts, expected) in [
        ([&whole[..9], &whole[9..]], frame(TEXT, &stars)),
        ([&cut[0][..], &cut[1][..]], masked),
    ] {
        for part in parts {
            stream.write_all(part).await?;
            stream.flush().await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let reply = &mut reply[..expected.len()];
        timeout(Duration::from_secs(5), stream.read_exact(reply)).await??;
        assert_eq!(reply, expected);
    }
    stream.shutdown().await?;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await?;
    assert_eq!(rest, frame(TEXT, "bye"));
    assert!(served.await?.unwrap().bytes_in > 40);
    Ok(())
}

/// How the gateway ends connections that a new policy does not allow.
#[tokio::test]
async fn ends_when_the_caller_drops_the_connection() -> Result {
    let world = World::new();
    let gateway = Gateway::new(&world, echo(&world).await?, bearer());
    let (tls, served) = gateway.tls(&["http/1.1"]).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection.with_upgrades());
    let mut response = sender.send_request(upgrade("websocket")).await?;
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await?);
    stream.write_all(&frame(TEXT, "x")).await?;
    stream.read_exact(&mut [0; 3]).await?;
    served.abort();
    // Neither an orderly end nor the "bye" that the upstream sends then.
    let ended = timeout(Duration::from_secs(5), stream.read_to_end(&mut Vec::new())).await?;
    assert!(ended.is_err(), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn refuses_other_upgrades() -> Result {
    let world = World::new();
    let gateway = Gateway::new(&world, echo(&world).await?, bearer());
    for protocol in ["h2c", "websocket, h2c", "TLS/1.0", ""] {
        let response = gateway.http1().await?.send_request(upgrade(protocol)).await?;
        assert_eq!(response.status(), 403, "{protocol}");
    }
    let mut twice = upgrade("websocket");
    twice
        .headers_mut()
        .append(UPGRADE, HeaderValue::from_static("h2c"));
    let mut unnamed = upgrade("websocket");
    unnamed
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    for request in [twice, unnamed] {
        assert_eq!(gateway.http1().await?.send_request(request).await?.status(), 403);
    }
    assert_eq!(gateway.reasons(), [Some("upgrade_refused"); 6]);
    Ok(())
}

#[tokio::test]
async fn a_refused_upgrade_leaves_the_connection_usable() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["http/1.1"]), |request| async move {
        let status = if request.headers().contains_key("upgrade") {
            426
        } else {
            200
        };
        Ok(Response::builder().status(status).body(body("no"))?)
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http1().await?;
    let response = client.send_request(upgrade("websocket")).await?;
    assert_eq!(
        (response.status().as_u16(), text(response).await?),
        (426, "no".into())
    );
    client.ready().await?;
    assert_eq!(client.send_request(get("/")).await?.status(), 200);
    Ok(())
}

#[tokio::test]
async fn an_upstream_that_switches_unasked_is_refused() -> Result {
    let world = World::new();
    for reply in [
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: raw\r\n\r\nraw bytes",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nraw bytes",
    ] {
        let port = raw_upstream(world.acceptor(&["http/1.1"]), move |mut stream| async move {
            read_head(&mut stream).await?;
            stream.write_all(reply.as_bytes()).await?;
            stream.read_u8().await?;
            Ok(())
        })
        .await?;
        let gateway = Gateway::new(&world, port, bearer());
        let response = gateway.http1().await?.send_request(get("/")).await?;
        assert_eq!(response.status(), 502, "{reply}");
    }
    Ok(())
}
