//! HTTP/2 from the sandbox to the upstream.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::rig::*;

/// A body that is sent piece by piece.
pub fn channel() -> (mpsc::UnboundedSender<Frame<Bytes>>, Body) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let frames = tokio_stream::StreamExt::map(UnboundedReceiverStream::new(receiver), Ok);
    (sender, StreamBody::new(frames).boxed_unsync())
}

#[tokio::test]
async fn sets_and_scrubs() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["h2", "http/1.1"]), |request| async move {
        assert_eq!(request.version(), http::Version::HTTP_2);
        assert_eq!(request.uri().to_string(), format!("https://{HOST}/a?b"));
        let all = request
            .headers()
            .get_all("authorization")
            .iter()
            .collect::<Vec<_>>();
        assert_eq!(all, [format!("Bearer {SECRET}").as_str()]);
        assert_eq!(request.headers()["te"], "trailers");
        Ok(Response::builder()
            .header("x-echo", all[0])
            .body(body(all[0].as_bytes().to_vec()))?)
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http2().await?;
    for _ in 0..3 {
        let mut request = get("https://api.test/a?b");
        request
            .headers_mut()
            .append("authorization", HeaderValue::from_static("own"));
        request
            .headers_mut()
            .append("authorization", HeaderValue::from_static("own2"));
        request
            .headers_mut()
            .append("te", HeaderValue::from_static("trailers"));
        let response = client.send_request(request).await?;
        let masked = format!("Bearer {}", "*".repeat(SECRET.len()));
        assert_eq!(response.headers()["x-echo"], masked.as_str());
        assert_eq!(text(response).await?, masked);
    }
    Ok(())
}

/// A client that reuses the connection for another name of a shared front gets 421 for that stream alone.
#[tokio::test]
async fn refuses_another_authority_on_the_connection() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["h2"]), |_| async {
        Ok(Response::new(body("ok")))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http2().await?;
    assert_eq!(client.send_request(get("https://api.test/")).await?.status(), 200);
    let mut host = get("https://api.test/");
    host.headers_mut()
        .insert("host", HeaderValue::from_static("evil.test"));
    for request in [get("https://evil.test/"), get("https://api.test:8443/"), host] {
        assert_eq!(client.send_request(request).await?.status(), 421);
    }
    assert_eq!(client.send_request(get("https://api.test/")).await?.status(), 200);
    assert_eq!(
        gateway
            .reasons()
            .iter()
            .filter(|reason| **reason == Some("host_mismatch"))
            .count(),
        3
    );
    Ok(())
}

#[tokio::test]
async fn streams_in_both_directions_with_trailers() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["h2"]), |request| async move {
        let (sender, reply) = channel();
        tokio::spawn(async move {
            let mut incoming = request.into_body();
            while let Some(Ok(frame)) = incoming.frame().await {
                match frame.into_data() {
                    Ok(data) => drop(sender.send(Frame::data(data))),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap();
                        assert!(!trailers.contains_key("authorization"));
                        let mut answer = HeaderMap::new();
                        answer.insert("grpc-status", trailers["x-ask"].clone());
                        answer.insert("x-echo", HeaderValue::from_static(SECRET));
                        drop(sender.send(Frame::trailers(answer)));
                    }
                }
            }
        });
        Ok(Response::new(reply))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http2().await?;
    let (sender, upload) = channel();
    let response = client
        .send_request(request("POST", "https://api.test/rpc", upload))
        .await?;
    let mut replies = response.into_body();
    for n in 0..50 {
        // Ends with the beginning of the secret: a message must not wait for the next one.
        sender.send(Frame::data(format!("message {n} to").into()))?;
        let mut reply = Vec::new();
        while reply.len() < format!("message {n} to").len() {
            reply.extend_from_slice(&replies.frame().await.unwrap()?.into_data().unwrap());
        }
        assert_eq!(reply, format!("message {n} to").into_bytes());
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-ask", HeaderValue::from_static("0"));
    trailers.insert("authorization", HeaderValue::from_static("own"));
    sender.send(Frame::trailers(trailers))?;
    drop(sender);
    let trailers = replies.frame().await.unwrap()?.into_trailers().unwrap();
    assert_eq!(trailers["grpc-status"], "0");
    assert_eq!(trailers["x-echo"], "*".repeat(SECRET.len()).as_str());
    Ok(())
}

#[tokio::test]
async fn many_streams_at_once() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["h2"]), |request| async move {
        Ok(Response::new(body(request.uri().path().repeat(3000))))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let client = gateway.http2().await?;
    let calls = (0..200).map(|n| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let response = client.send_request(get(&format!("https://api.test/{n}"))).await?;
            assert_eq!(text(response).await?, format!("/{n}").repeat(3000));
            Result::Ok(())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await??;
    }
    Ok(())
}

/// The sandbox gets the version that the upstream speaks, so that nothing is translated.
#[tokio::test]
async fn both_sides_speak_the_same_version() -> Result {
    let world = World::new();
    for (server, client, expected) in [
        (&["http/1.1"][..], &["h2", "http/1.1"][..], Some("http/1.1")),
        (&["h2", "http/1.1"][..], &["h2", "http/1.1"][..], Some("h2")),
        (&["h2", "http/1.1"][..], &["http/1.1"][..], Some("http/1.1")),
        (&["h2", "http/1.1"][..], &[][..], None),
        (&[][..], &["h2", "http/1.1"][..], Some("http/1.1")),
    ] {
        let port = upstream(world.acceptor(server), |_| async {
            Ok(Response::new(body("ok")))
        })
        .await?;
        let gateway = Gateway::new(&world, port, bearer());
        let (tls, _) = gateway.tls(client).await?;
        let alpn = tls
            .get_ref()
            .1
            .alpn_protocol()
            .map(|name| std::str::from_utf8(name).unwrap().to_owned());
        assert_eq!(alpn.as_deref(), expected, "{server:?} {client:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_client_of_http2_only_is_told_that_the_upstream_has_none() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["http/1.1"]), |_| async {
        Ok(Response::new(body("ok")))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let response = gateway
        .http2()
        .await?
        .send_request(get("https://api.test/"))
        .await?;
    assert_eq!(response.status(), 502);
    assert!(text(response).await?.contains("version of HTTP"));
    Ok(())
}
