//! An upstream server, a broker in front of it, and clients that trust the broker's authority.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use gateway::transform::{
    Broker, CaMaterial, Failure, RequestEvent, Roots, Totals, Transform, make_ca, serve,
};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

pub const HOST: &str = "api.test";
pub const SECRET: &str = "tok_7Hq+zW/19aXc";

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The public key infrastructure of the outside world.
pub struct World {
    pub issuer: CertifiedIssuer<'static, KeyPair>,
}

impl World {
    pub fn new() -> World {
        let mut params = CertificateParams::default();
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("World {}", NUMBER.fetch_add(1, Relaxed));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        World {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        }
    }

    pub fn acceptor(&self, alpn: &[&str]) -> TlsAcceptor {
        self.acceptor_with(alpn, CertificateParams::new(vec![HOST.to_owned()]).unwrap())
    }

    /// A certificate and its key, for servers in other languages.
    pub fn pem(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (
            params.signed_by(&key, &self.issuer).unwrap().pem(),
            key.serialize_pem(),
        )
    }

    pub fn acceptor_with(&self, alpn: &[&str], params: CertificateParams) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        acceptor(alpn, cert.der().clone(), &key)
    }
}

pub fn acceptor(alpn: &[&str], cert: CertificateDer<'static>, key: &KeyPair) -> TlsAcceptor {
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

pub fn transforms(json: serde_json::Value) -> Vec<Transform> {
    serde_json::from_value(json).unwrap()
}

pub fn bearer() -> Vec<Transform> {
    transforms(serde_json::json!([
        { "match": { "host": HOST },
          "headers": { "authorization": { "secret": "token", "prefix": "Bearer " } } }
    ]))
}

pub fn secrets(pairs: &[(&str, &str)]) -> HashMap<String, secrecy::SecretString> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect()
}

/// A broker, and the port of the upstream that its connections lead to.
pub struct Gateway {
    pub broker: Arc<Broker>,
    pub ca: Arc<CaMaterial>,
    pub roots: Roots,
    pub port: u16,
    /// The port that the sandbox called.
    pub called: u16,
    pub events: Arc<Mutex<Vec<RequestEvent>>>,
}

pub type Served = JoinHandle<std::result::Result<Totals, Failure>>;

impl Gateway {
    pub fn new(world: &World, port: u16, transforms: Vec<Transform>) -> Gateway {
        Self::with(world, port, transforms, secrets(&[("token", SECRET)]))
    }

    pub fn with(
        world: &World,
        port: u16,
        transforms: Vec<Transform>,
        secrets: HashMap<String, secrecy::SecretString>,
    ) -> Gateway {
        let ca = make_ca().unwrap();
        let roots = Roots::load(&[world.issuer.pem()]).unwrap();
        let broker = Arc::new(Broker::new(&ca, transforms, secrets, &roots).unwrap());
        Gateway {
            broker,
            ca: Arc::new(ca),
            roots,
            port,
            called: 443,
            events: Arc::default(),
        }
    }

    /// The sandbox's end of a served connection, before TLS.
    pub async fn tcp(&self) -> Result<(TcpStream, Served)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = TcpStream::connect(listener.local_addr()?).await?;
        let (inside, _) = listener.accept().await?;
        Ok((client, self.serve(inside).await?))
    }

    pub async fn serve(&self, inside: TcpStream) -> Result<Served> {
        let upstream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        upstream.set_nodelay(true)?;
        inside.set_nodelay(true)?;
        let events = Arc::clone(&self.events);
        let record = move |event| events.lock().unwrap().push(event);
        Ok(tokio::spawn(serve(
            inside,
            (HOST.into(), self.called),
            upstream,
            Arc::clone(&self.broker),
            record,
        )))
    }

    pub async fn tls(&self, alpn: &[&str]) -> Result<(client::TlsStream<TcpStream>, Served)> {
        let (tcp, served) = self.tcp().await?;
        Ok((
            self.connector(alpn)
                .connect(ServerName::try_from(HOST)?, tcp)
                .await?,
            served,
        ))
    }

    pub fn connector(&self, alpn: &[&str]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.ca.cert.as_bytes()).unwrap())
            .unwrap();
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    pub fn reasons(&self) -> Vec<Option<&'static str>> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .map(|event| event.reason)
            .collect()
    }
}

/// A TLS server that hands each connection to `handle`. Returns its port.
pub async fn raw_upstream<F, R>(acceptor: TlsAcceptor, handle: F) -> Result<u16>
where
    F: Fn(server::TlsStream<TcpStream>) -> R + Clone + Send + 'static,
    R: Future<Output = Result> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, handle) = (acceptor.clone(), handle.clone());
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = handle(stream).await;
                }
            });
        }
    });
    Ok(port)
}

/// Reads until the empty line, byte by byte so that a body stays unread.
pub async fn read_head<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match tokio::io::AsyncReadExt::read_u8(stream).await {
            Ok(byte) => head.push(byte),
            Err(_) if head.is_empty() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(String::from_utf8(head)?))
}

/// The values of a header in a head as text.
pub fn values(head: &str, name: &str) -> Vec<String> {
    let lines = head.split("\r\n\r\n").next().unwrap_or("").lines().skip(1);
    lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_owned())
        .collect()
}

pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

pub fn body(data: impl Into<Bytes>) -> Body {
    Full::new(data.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// An upstream of hyper that speaks what the client chose.
pub async fn upstream<F, R>(acceptor: TlsAcceptor, handle: F) -> Result<u16>
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Response<Body>>> + Send + 'static,
{
    raw_upstream(acceptor, move |stream| {
        let service = service_fn(handle.clone());
        async move {
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.serve_connection(TokioIo::new(stream), service).await?;
            } else {
                let builder = hyper::server::conn::http1::Builder::new();
                builder
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades()
                    .await?;
            }
            Ok(())
        }
    })
    .await
}

pub type Http1 = hyper::client::conn::http1::SendRequest<Body>;
pub type Http2 = hyper::client::conn::http2::SendRequest<Body>;

impl Gateway {
    pub async fn http1(&self) -> Result<Http1> {
        let (tls, _) = self.tls(&["http/1.1"]).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    pub async fn http2(&self) -> Result<Http2> {
        let (tls, _) = self.tls(&["h2"]).await?;
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A request without a body, for either version.
pub fn get(target: &str) -> Request<Body> {
    request("GET", target, body(""))
}

pub fn request(method: &str, target: &str, body: Body) -> Request<Body> {
    let builder = Request::builder().method(method).uri(target);
    let origin = target.starts_with('/');
    if origin {
        builder.header("host", HOST)
    } else {
        builder
    }
    .body(body)
    .unwrap()
}

pub async fn text(response: Response<Incoming>) -> Result<String> {
    Ok(String::from_utf8(
        response.into_body().collect().await?.to_bytes().to_vec(),
    )?)
}
