//! Connects to the outside.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::socket;
use crate::dns::resolver::{Family, resolve};
use crate::policy::Service;
use crate::sandbox::Sandbox;

const CONNECT: Duration = Duration::from_secs(10);

/// The address has been checked.
pub async fn to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = timeout(CONNECT, TcpStream::connect(address)).await??;
    socket::prepare(&stream);
    Ok(stream)
}

/// The embedding process named the target, so it may lead inside.
pub async fn to_service(sandbox: &Sandbox, service: &Service) -> io::Result<TcpStream> {
    let (host, port) = &service.to;
    let mut result = Err(io::ErrorKind::NotFound.into());
    for address in addresses_of(sandbox, host).await {
        result = to((address, *port).into()).await;
        if result.is_ok() {
            break;
        }
    }
    result
}

async fn addresses_of(sandbox: &Sandbox, host: &str) -> Vec<IpAddr> {
    if let Ok(address) = host.parse() {
        return vec![address];
    }
    if host == "localhost" {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let Some(gateway) = sandbox.gateway() else {
        return Vec::new();
    };
    let told = gateway.host.told();
    let mut addresses = Vec::new();
    for family in [Family::V4, Family::V6] {
        addresses.extend(
            resolve(&told, host, family)
                .await
                .map(|found| found.addresses)
                .unwrap_or_default(),
        );
    }
    addresses
}
