//! TLS to both sides. Nothing is resumed, stored or logged: no tickets, no sessions, no key log.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::{Acceptor, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::server::StartHandshake;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector, client, server};

use super::{Invalid, Roots};

pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    fn alpn(self) -> &'static [u8] {
        match self {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        }
    }
}

/// Why no TLS connection to the upstream exists. The words are shown inside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Timeout,
    Words(&'static str),
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(super) fn client_config(roots: &Roots, provider: Arc<CryptoProvider>) -> Result<ClientConfig, Invalid> {
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Invalid(format!("cannot set up TLS: {error}")))?
        .with_root_certificates(roots.store())
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Reads the ClientHello, without answering.
pub(super) async fn hello<C>(client: C) -> std::io::Result<StartHandshake<C>>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    timeout(HANDSHAKE, LazyConfigAcceptor::new(Acceptor::default(), client)).await?
}

/// What of our protocols the client offers. A client without ALPN speaks HTTP/1.1.
pub(super) fn offered<C>(start: &StartHandshake<C>) -> Vec<Protocol>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let hello = start.client_hello();
    match hello.alpn() {
        None => vec![Protocol::Http1],
        Some(names) => {
            let names: Vec<&[u8]> = names.collect();
            [Protocol::Http2, Protocol::Http1]
                .into_iter()
                .filter(|p| names.contains(&p.alpn()))
                .collect()
        }
    }
}

pub(super) async fn accept<C>(
    start: StartHandshake<C>,
    leaf: Arc<CertifiedKey>,
    protocols: &[Protocol],
    provider: Arc<CryptoProvider>,
) -> std::io::Result<server::TlsStream<C>>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(leaf)));
    config.alpn_protocols = protocols.iter().map(|p| p.alpn().to_vec()).collect();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    timeout(HANDSHAKE, start.into_stream(Arc::new(config))).await?
}

/// Connects with the normal checks of the server's certificate.
pub(super) async fn connect<U>(
    upstream: U,
    host: &str,
    protocols: &[Protocol],
    mut config: ClientConfig,
) -> Result<client::TlsStream<U>, Refused>
where
    U: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(host.to_owned()).map_err(|_| Refused::Words("has no valid name"))?;
    config.alpn_protocols = protocols.iter().map(|p| p.alpn().to_vec()).collect();
    match timeout(
        HANDSHAKE,
        TlsConnector::from(Arc::new(config)).connect(name, upstream),
    )
    .await
    {
        Err(_) => Err(Refused::Timeout),
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Refused::Words(words(&error))),
    }
}

pub(super) fn negotiated(alpn: Option<&[u8]>) -> Protocol {
    if alpn == Some(Protocol::Http2.alpn()) {
        Protocol::Http2
    } else {
        Protocol::Http1
    }
}

fn words(error: &std::io::Error) -> &'static str {
    let Some(error) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    else {
        return "closed the connection during the TLS handshake";
    };
    match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "has an expired certificate"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "has a certificate that is not valid yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "has a certificate for another name"
            }
            CertificateError::UnknownIssuer => "has a certificate of an unknown authority",
            CertificateError::Revoked => "has a revoked certificate",
            _ => "has a certificate that is not valid",
        },
        rustls::Error::InvalidMessage(_) => "does not speak TLS",
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => {
            "does not speak the version of HTTP that the client asks for"
        }
        _ => "refused the TLS handshake",
    }
}
