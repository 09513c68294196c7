//! Large bodies: unchanged, and never held in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use ring::digest::{Context, SHA256};

use crate::rig::*;

const PIECE: usize = 64 * 1024;

/// `BODY_MIB=200` tries larger ones.
fn size() -> usize {
    std::env::var("BODY_MIB").map_or(24, |text| text.parse().unwrap()) * 1024 * 1024
}

/// Bytes that look random and differ everywhere. `sent` counts what was taken.
fn noise(length: usize, sent: Arc<AtomicUsize>) -> Body {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let pieces = (0..length.div_ceil(PIECE)).map(move |n| {
        let size = PIECE.min(length - n * PIECE);
        let mut piece = Vec::with_capacity(size + 8);
        while piece.len() < size {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            piece.extend_from_slice(&state.to_le_bytes());
        }
        piece.truncate(size);
        sent.fetch_add(size, SeqCst);
        Ok(Frame::data(Bytes::from(piece)))
    });
    StreamBody::new(tokio_stream::iter(pieces)).boxed_unsync()
}

async fn digest(mut body: Incoming) -> Result<(usize, String)> {
    let mut context = Context::new(&SHA256);
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            length += data.len();
            context.update(&data);
        }
    }
    Ok((length, format!("{:?}", context.finish())))
}

async fn reference(length: usize) -> Result<(usize, String)> {
    let mut context = Context::new(&SHA256);
    let mut body = noise(length, Arc::default());
    while let Some(frame) = body.frame().await {
        context.update(&frame?.into_data().unwrap());
    }
    Ok((length, format!("{:?}", context.finish())))
}

async fn both_ways(request: Request<Incoming>) -> Result<Response<Body>> {
    if request.method() == "GET" {
        return Ok(Response::new(noise(size(), Arc::default())));
    }
    let (length, digest) = digest(request.into_body()).await?;
    Ok(Response::new(body(format!("{length} {digest}"))))
}

#[tokio::test(flavor = "multi_thread")]
async fn arrive_unchanged() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["h2", "http/1.1"]), both_ways).await?;
    let gateway = Gateway::new(&world, port, bearer());
    let expected = reference(size()).await?;
    let uploaded = format!("{} {}", expected.0, expected.1);

    let mut client = gateway.http1().await?;
    assert_eq!(
        digest(client.send_request(get("/")).await?.into_body()).await?,
        expected
    );
    client.ready().await?;
    let mut with_length = request("PUT", "/", noise(size(), Arc::default()));
    with_length.headers_mut().insert("content-length", size().into());
    assert_eq!(text(client.send_request(with_length).await?).await?, uploaded);
    client.ready().await?;
    let chunked = request("PUT", "/", noise(size(), Arc::default()));
    assert_eq!(text(client.send_request(chunked).await?).await?, uploaded);

    let mut client = gateway.http2().await?;
    let url = format!("https://{HOST}/");
    assert_eq!(
        digest(client.send_request(get(&url)).await?.into_body()).await?,
        expected
    );
    let upload = request("PUT", &url, noise(size(), Arc::default()));
    assert_eq!(text(client.send_request(upload).await?).await?, uploaded);
    Ok(())
}

/// What a side that reads nothing makes the other side send.
async fn settled(sent: &AtomicUsize) -> usize {
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = sent.load(SeqCst);
        if now == before {
            return now;
        }
        before = now;
    }
}

const ENOUGH: usize = 24 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_slows_the_upstream() -> Result {
    let world = World::new();
    for alpn in ["http/1.1", "h2"] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let port = upstream(world.acceptor(&[alpn]), move |_| {
            let body = noise(1 << 30, Arc::clone(&counter));
            async { Ok(Response::new(body)) }
        })
        .await?;
        let gateway = Gateway::new(&world, port, bearer());
        let response = if alpn == "h2" {
            gateway
                .http2()
                .await?
                .send_request(get("https://api.test/"))
                .await?
        } else {
            gateway.http1().await?.send_request(get("/")).await?
        };
        let sent = settled(&sent).await;
        assert!((1..ENOUGH).contains(&sent), "{alpn}: {sent}");
        drop(response);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_upstream_slows_the_client() -> Result {
    let world = World::new();
    for alpn in ["http/1.1", "h2"] {
        let port = upstream(world.acceptor(&[alpn]), |request| async move {
            std::future::pending::<()>().await;
            drop(request);
            Ok(Response::new(body("")))
        })
        .await?;
        let gateway = Gateway::new(&world, port, bearer());
        let sent = Arc::new(AtomicUsize::new(0));
        let upload = noise(1 << 30, Arc::clone(&sent));
        let task = if alpn == "h2" {
            let mut client = gateway.http2().await?;
            tokio::spawn(async move {
                client
                    .send_request(request("PUT", "https://api.test/", upload))
                    .await
                    .is_ok()
            })
        } else {
            let mut client = gateway.http1().await?;
            tokio::spawn(async move { client.send_request(request("PUT", "/", upload)).await.is_ok() })
        };
        let sent = settled(&sent).await;
        assert!((1..ENOUGH).contains(&sent), "{alpn}: {sent}");
        task.abort();
    }
    Ok(())
}
