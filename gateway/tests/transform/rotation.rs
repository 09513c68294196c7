//! Secrets and transforms change while requests run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use http::Response;

use crate::rig::*;

/// Each secret says its generation, so the answer can say it without repeating the secret.
fn secret(generation: usize) -> String {
    format!("rotated-secret-{generation:04}")
}

#[tokio::test(flavor = "multi_thread")]
async fn under_load() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["h2", "http/1.1"]), |request| async move {
        let value = request.headers()["authorization"].to_str()?.to_owned();
        let generation = value.rsplit('-').next().unwrap().to_owned();
        Ok(Response::builder()
            .header("x-generation", generation)
            .body(body(value))?)
    })
    .await?;
    let gateway = Arc::new(Gateway::with(
        &world,
        port,
        bearer(),
        secrets(&[("token", &secret(0))]),
    ));
    let stop = Arc::new(AtomicBool::new(false));
    let callers = (0..8).map(|n| {
        let (gateway, stop) = (Arc::clone(&gateway), Arc::clone(&stop));
        tokio::spawn(async move {
            let (mut http1, mut http2) = (gateway.http1().await?, gateway.http2().await?);
            let mut last = 0;
            let mut calls = 0;
            while !stop.load(SeqCst) {
                let response = if n % 2 == 0 {
                    http1.ready().await?;
                    http1.send_request(get("/")).await?
                } else {
                    http2.send_request(get("https://api.test/")).await?
                };
                assert_eq!(response.status(), 200);
                let generation: usize = response.headers()["x-generation"].to_str()?.parse()?;
                assert!(generation >= last);
                last = generation;
                assert_eq!(
                    text(response).await?,
                    format!("Bearer {}", "*".repeat(secret(0).len()))
                );
                calls += 1;
            }
            assert!(calls > 20);
            Result::Ok(())
        })
    });
    let callers: Vec<_> = callers.collect();
    for generation in 1..=40 {
        gateway.broker.update(
            bearer(),
            secrets(&[("token", &secret(generation))]),
            &gateway.roots,
        )?;
        // Atomic: the next request has the new secret, on a new and on an open connection.
        let response = gateway
            .http2()
            .await?
            .send_request(get("https://api.test/"))
            .await?;
        assert_eq!(
            response.headers()["x-generation"],
            format!("{generation:04}").as_str()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, SeqCst);
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_update_changes_nothing() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&["http/1.1"]), |request| async move {
        Ok(Response::new(body(
            request.headers().contains_key("authorization").to_string(),
        )))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let mut client = gateway.http1().await?;
    assert!(
        gateway
            .broker
            .update(bearer(), secrets(&[("token", "no\nvalue")]), &gateway.roots)
            .is_err()
    );
    assert_eq!(text(client.send_request(get("/")).await?).await?, "true");
    gateway.broker.update(Vec::new(), secrets(&[]), &gateway.roots)?;
    assert!(!gateway.broker.matches(HOST));
    client.ready().await?;
    assert_eq!(text(client.send_request(get("/")).await?).await?, "false");
    Ok(())
}
