//! Which requests get which headers.

use gateway::transform::{Broker, Invalid, Roots, Transform, make_ca};
use http::Response;
use serde_json::json;

use crate::rig::*;

/// Sends a request and returns what the upstream saw of `x-a`, `x-b` and `authorization`, or the status of a refusal.
async fn seen(gateway: &Gateway, method: &str, target: &str) -> Result<String> {
    let response = gateway
        .http1()
        .await?
        .send_request(request(method, target, body("")))
        .await?;
    let status = response.status().as_u16();
    if status != 200 {
        return Ok(status.to_string());
    }
    text(response).await
}

async fn gateway(world: &World, transforms: serde_json::Value) -> Result<Gateway> {
    let port = upstream(world.acceptor(&["http/1.1"]), |request| async move {
        let value = |name: &str| {
            request
                .headers()
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
                .to_owned()
        };
        // Reversed, so that it is not scrubbed.
        let authorization: String = value("authorization").chars().rev().collect();
        Ok(Response::new(body(
            [value("x-a"), value("x-b"), authorization].join(" "),
        )))
    })
    .await?;
    Ok(Gateway::new(world, port, crate::rig::transforms(transforms)))
}

#[tokio::test]
async fn matches_host_path_and_method() -> Result {
    let world = World::new();
    let gateway = gateway(
        &world,
        json!([
            { "match": { "host": "*.test", "path": "/repos/", "methods": ["GET", "PUT"] }, "headers": { "x-a": "1" } },
            { "match": { "host": "API.test", "path": "/repos/b/" }, "headers": { "x-a": "2", "X-B": "2" } },
            { "match": { "host": "other.test" }, "headers": { "x-a": "3" } },
        ]),
    )
    .await?;
    for (method, target, expected) in [
        ("GET", "/repos/a", "1 - -"),
        ("PUT", "/repos/a", "1 - -"),
        ("POST", "/repos/a", "- - -"),
        ("get", "/repos/a", "- - -"),
        ("GET", "/repos", "- - -"),
        ("GET", "/Repos/a", "- - -"),
        ("GET", "/x?/repos/", "- - -"),
        ("GET", "//repos/", "- - -"),
        ("GET", "/%72epos/a", "- - -"),
        // The first transform that names a header decides it; the others still set theirs.
        ("GET", "/repos/b/c", "1 2 -"),
        ("POST", "/repos/b/c", "2 2 -"),
        ("GET", "/repos/@scope%2fname", "1 - -"),
        ("GET", "/repos/../user", "400"),
        ("GET", "/repos/%2e%2e/user", "400"),
        ("GET", "/repos/..%2fuser", "400"),
        ("GET", "/repos/%252e%252e/user", "400"),
        ("GET", "/repos/..;/user", "400"),
        ("GET", "/user/../repos/", "400"),
    ] {
        assert_eq!(
            seen(&gateway, method, target).await?,
            expected,
            "{method} {target}"
        );
    }
    assert!(gateway.reasons().contains(&Some("path_refused")));
    assert!(gateway.broker.matches("x.TEST") && gateway.broker.matches("other.test"));
    assert!(!gateway.broker.matches("test") && !gateway.broker.matches("api.test.evil"));
    Ok(())
}

/// Frameworks that know these headers would use the secret for a request that no transform matches.
#[tokio::test]
async fn a_header_cannot_change_what_was_matched() -> Result {
    let world = World::new();
    let match_path = json!({ "host": HOST, "path": "/repos/" });
    let match_method = json!({ "host": HOST, "methods": ["GET"] });
    for (matching, header, expected) in [
        (&match_path, "X-Original-URL", 400),
        (&match_path, "x-rewrite-url", 400),
        (&match_path, "X_Rewrite_URL", 400),
        (&match_path, "x-http-method-override", 200),
        (&match_method, "X-HTTP-Method-Override", 400),
        (&match_method, "x-http-method", 400),
        (&match_method, "X_Method_Override", 400),
        (&match_method, "x-original-url", 200),
        (&json!({ "host": HOST }), "x-http-method-override", 200),
    ] {
        let transforms = json!([{ "match": matching, "headers": { "x-a": "1" } }]);
        let gateway = gateway(&world, transforms).await?;
        let mut request = request("GET", "/repos/a", body(""));
        let name = http::HeaderName::from_bytes(header.as_bytes())?;
        request
            .headers_mut()
            .insert(name, http::HeaderValue::from_static("/user"));
        let response = gateway.http1().await?.send_request(request).await?;
        assert_eq!(response.status(), expected, "{matching} {header}");
        let reason = (expected == 400).then_some("override_refused");
        assert_eq!(gateway.reasons(), [reason], "{matching} {header}");
    }
    Ok(())
}

#[tokio::test]
async fn serves_other_ports_than_443() -> Result {
    let world = World::new();
    let host = |request: http::Request<hyper::body::Incoming>| async move {
        let authority = request.uri().authority().map(ToString::to_string);
        let host = request
            .headers()
            .get("host")
            .map(|host| host.to_str().unwrap().to_owned());
        Ok(Response::new(body(authority.or(host).unwrap_or_default())))
    };
    let mut gateway = Gateway::new(
        &world,
        upstream(world.acceptor(&["h2", "http/1.1"]), host).await?,
        bearer(),
    );
    gateway.called = 8443;
    for named in ["api.test:8443", "api.test"] {
        let mut request = request("GET", "/", body(""));
        request
            .headers_mut()
            .insert("host", http::HeaderValue::from_static(named));
        let response = gateway.http1().await?.send_request(request).await?;
        assert_eq!(text(response).await?, "api.test:8443");
    }
    let response = gateway
        .http2()
        .await?
        .send_request(get("https://api.test:8443/"))
        .await?;
    assert_eq!(text(response).await?, "api.test:8443");
    let response = gateway
        .http2()
        .await?
        .send_request(get("https://api.test:443/"))
        .await?;
    assert_eq!(response.status(), 421);
    Ok(())
}

#[tokio::test]
async fn composes_values() -> Result {
    let world = World::new();
    for (value, expected) in [
        (json!({ "secret": "token" }), SECRET.to_owned()),
        (
            json!({ "secret": "token", "prefix": "a ", "suffix": " z" }),
            format!("a {SECRET} z"),
        ),
        (
            json!({ "secret": "token", "basic": "me" }),
            "Basic bWU6dG9rXzdIcSt6Vy8xOWFYYw==".into(),
        ),
        (json!("literal"), "literal".into()),
    ] {
        let transforms = json!([{ "match": { "host": HOST }, "headers": { "authorization": value } }]);
        let gateway = gateway(&world, transforms).await?;
        let reversed: String = expected.chars().rev().collect();
        assert_eq!(seen(&gateway, "GET", "/").await?, format!("- - {reversed}"));
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_secret_is_never_sent_without() -> Result {
    let world = World::new();
    let port = raw_upstream(world.acceptor(&["http/1.1"]), |mut stream| async move {
        assert_eq!(read_head(&mut stream).await?, None, "a request arrived");
        Ok(())
    })
    .await?;
    let gateway = Gateway::with(&world, port, bearer(), secrets(&[("other", SECRET)]));
    let response = gateway.http1().await?.send_request(get("/")).await?;
    assert_eq!(response.status(), 502);
    assert_eq!(
        text(response).await?,
        "sandkasten: the secret \"token\" is not set\n"
    );
    assert_eq!(gateway.reasons(), [Some("secret_missing")]);
    Ok(())
}

fn broken(transforms: serde_json::Value, pairs: &[(&str, &str)]) -> String {
    let parsed: std::result::Result<Vec<Transform>, _> = serde_json::from_value(transforms);
    let made = match parsed {
        Err(error) => return error.to_string(),
        Ok(parsed) => Broker::new(
            &make_ca().unwrap(),
            parsed,
            secrets(pairs),
            &Roots::load(&[]).unwrap(),
        ),
    };
    match made {
        Ok(_) => "accepted".into(),
        Err(Invalid(text)) => text,
    }
}

#[test]
fn refuses_policies_that_cannot_be_kept() {
    let set = |name: &str, value: serde_json::Value| json!([{ "match": { "host": HOST }, "headers": { name: value } }]);
    let at = |what: serde_json::Value| json!([{ "match": what, "headers": { "x-a": "1" } }]);
    for name in [
        "host",
        "Content-Length",
        "transfer-encoding",
        "connection",
        "range",
        "accept-encoding",
        "te",
        "",
        "a b",
        ":path",
    ] {
        assert_ne!(broken(set(name, json!("1")), &[]), "accepted", "{name}");
    }
    for value in [
        json!("a\r\nb"),
        json!({ "secret": "s", "prefix": "\n" }),
        json!({ "secret": "s", "basic": "a:b" }),
        json!({ "secret": "s", "basic": "a", "prefix": "b" }),
        json!({ "secret": "s", "Prefix": "b" }),
        json!(1),
    ] {
        assert_ne!(broken(set("x-a", value.clone()), &[]), "accepted", "{value}");
    }
    for what in [
        json!({ "host": "127.0.0.1" }),
        json!({ "host": "" }),
        json!({ "host": HOST, "path": "repos" }),
        json!({ "host": HOST, "path": "/a/../b" }),
        json!({ "host": HOST, "path": "/a?b" }),
        json!({ "host": HOST, "methods": [] }),
        json!({ "host": HOST, "methods": ["get"] }),
        json!({ "host": HOST, "query": "a" }),
        json!({}),
    ] {
        assert_ne!(broken(at(what.clone()), &[]), "accepted", "{what}");
    }
    for value in ["short", "with\nline", "nul\0nul", &"x".repeat(5000)] {
        let text = broken(at(json!({ "host": HOST })), &[("name", value)]);
        assert!(text.contains("\"name\"") && !text.contains(value), "{text}");
    }
    assert_eq!(
        broken(at(json!({ "host": HOST })), &[("name", "long enough")]),
        "accepted"
    );
    let double = json!([{ "match": { "host": HOST }, "headers": { "x-a": "1", "X-A": "2" } }]);
    assert_ne!(broken(double, &[]), "accepted");
}
