//! Certificates: the upstream's are checked, and the sandbox gets its own.

use gateway::transform::make_ca;
use rcgen::{CertificateParams, KeyPair};
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::rig::*;

fn params(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

/// The request must never arrive, and the client gets 502 with these words.
async fn refused(acceptor: TlsAcceptor, words: &str) -> Result {
    let world = World::new();
    refused_in(&world, acceptor, words).await
}

async fn refused_in(world: &World, acceptor: TlsAcceptor, words: &str) -> Result {
    let port = raw_upstream(acceptor, |mut stream| async move {
        let mut byte = [0];
        assert!(
            !matches!(stream.read(&mut byte).await, Ok(1)),
            "the request arrived"
        );
        Ok(())
    })
    .await?;
    let gateway = Gateway::new(world, port, bearer());
    let response = gateway.http1().await?.send_request(get("/")).await?;
    assert_eq!(response.status(), 502);
    assert_eq!(text(response).await?, format!("sandkasten: api.test {words}\n"));
    let response = gateway
        .http2()
        .await?
        .send_request(get("https://api.test/"))
        .await?;
    assert_eq!(response.status(), 502);
    assert_eq!(gateway.reasons(), [Some("upstream_tls"); 2]);
    Ok(())
}

#[tokio::test]
async fn an_expired_one_is_refused() -> Result {
    let world = World::new();
    let mut expired = params(HOST);
    expired.not_after = OffsetDateTime::now_utc() - Duration::hours(1);
    refused_in(
        &world,
        world.acceptor_with(&[], expired),
        "has an expired certificate",
    )
    .await?;
    let mut future = params(HOST);
    future.not_before = OffsetDateTime::now_utc() + Duration::hours(1);
    refused_in(
        &world,
        world.acceptor_with(&[], future),
        "has a certificate that is not valid yet",
    )
    .await
}

#[tokio::test]
async fn one_for_another_name_is_refused() -> Result {
    let world = World::new();
    let words = "has a certificate for another name";
    refused_in(&world, world.acceptor_with(&[], params("other.test")), words).await?;
    refused_in(&world, world.acceptor_with(&[], params("*.api.test")), words).await
}

#[tokio::test]
async fn one_that_nobody_trusted_signed_is_refused() -> Result {
    let key = KeyPair::generate()?;
    let own = params(HOST).self_signed(&key)?;
    refused(
        acceptor(&[], own.der().clone(), &key),
        "has a certificate of an unknown authority",
    )
    .await?;
    refused(
        World::new().acceptor(&[]),
        "has a certificate of an unknown authority",
    )
    .await
}

#[tokio::test]
async fn a_server_without_tls_is_refused() -> Result {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let gateway = Gateway::new(&world, listener.local_addr()?.port(), bearer());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            .await?;
        let (stream, _) = listener.accept().await?;
        drop(stream);
        Result::Ok(())
    });
    for words in [
        "does not speak TLS",
        "closed the connection during the TLS handshake",
    ] {
        let response = gateway.http1().await?.send_request(get("/")).await?;
        assert_eq!(
            (response.status().as_u16(), text(response).await?),
            (502, format!("sandkasten: api.test {words}\n"))
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_silent_is_a_timeout() -> Result {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let gateway = Gateway::new(&world, listener.local_addr()?.port(), bearer());
    let response = gateway.http1().await?.send_request(get("/")).await?;
    assert_eq!(response.status(), 504);
    assert_eq!(gateway.reasons(), [Some("upstream_tls")]);
    Ok(())
}

#[tokio::test]
async fn a_client_hello_for_another_host_is_refused() -> Result {
    let world = World::new();
    let gateway = Gateway::new(&world, 0, bearer());
    for name in ["other.test", "127.0.0.1"] {
        let upstream = TcpListener::bind("127.0.0.1:0").await?;
        let gateway = Gateway {
            port: upstream.local_addr()?.port(),
            ..Gateway::new(&world, 0, bearer())
        };
        let (tcp, served) = gateway.tcp().await?;
        let name = rustls::pki_types::ServerName::try_from(name)?;
        assert!(gateway.connector(&[]).connect(name, tcp).await.is_err());
        assert_eq!(served.await?.unwrap_err().reason, "sni_not_allowed");
        // Nothing was sent.
        let (mut stream, _) = upstream.accept().await?;
        assert_eq!(stream.read(&mut [0]).await?, 0);
    }
    drop(gateway);
    Ok(())
}

/// Strict clients (Python with VERIFY_X509_STRICT, openssl -x509_strict) need all of these extensions.
#[tokio::test]
async fn openssl_accepts_what_the_sandbox_gets() -> Result {
    let world = World::new();
    let port = upstream(world.acceptor(&[]), |_| async {
        Ok(http::Response::new(body("ok")))
    })
    .await?;
    let gateway = Gateway::new(&world, port, bearer());
    let (tls, _) = gateway.tls(&[]).await?;
    let leaf = tls.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let folder = std::env::temp_dir().join(format!("broker-openssl-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("ca.pem"), &gateway.ca.cert)?;
    std::fs::write(folder.join("leaf.der"), leaf)?;
    let openssl = |args: &str| {
        let output = std::process::Command::new("openssl")
            .args(args.split(' '))
            .current_dir(&folder)
            .output()?;
        Result::Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    openssl("x509 -inform der -in leaf.der -out leaf.pem")?;
    let verified =
        openssl("verify -x509_strict -purpose sslserver -verify_hostname api.test -CAfile ca.pem leaf.pem")?;
    let leaf = openssl("x509 -in leaf.pem -noout -text")?;
    let ca = openssl("x509 -in ca.pem -noout -text")?;
    let soon = openssl("x509 -in leaf.pem -noout -checkend 86400")?;
    std::fs::remove_dir_all(&folder)?;
    assert_eq!(verified, "leaf.pem: OK\n");
    assert!(
        leaf.contains("DNS:api.test") && !leaf.contains("CA:TRUE"),
        "{leaf}"
    );
    assert!(
        ca.contains("CA:TRUE, pathlen:0") && ca.contains("TLS Web Server Authentication"),
        "{ca}"
    );
    assert!(soon.contains("will expire"), "{soon}");
    Ok(())
}

#[tokio::test]
async fn each_authority_is_its_own() -> Result {
    let (one, two) = (make_ca()?, make_ca()?);
    assert_ne!(one.cert, two.cert);
    let world = World::new();
    let port = upstream(world.acceptor(&[]), |_| async {
        Ok(http::Response::new(body("ok")))
    })
    .await?;
    let (left, right) = (
        Gateway::new(&world, port, bearer()),
        Gateway::new(&world, port, bearer()),
    );
    let (tcp, served) = left.tcp().await?;
    let name = rustls::pki_types::ServerName::try_from(HOST)?;
    assert!(right.connector(&[]).connect(name, tcp).await.is_err());
    assert_eq!(served.await?.unwrap_err().reason, "client_tls");
    drop(TcpStream::connect(("127.0.0.1", port)).await?);
    Ok(())
}
