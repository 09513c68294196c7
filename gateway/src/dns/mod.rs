//! The sandbox's DNS, over UDP and TCP.

mod answer;
pub mod resolver;

use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub use answer::{answer, is_resolver};

use crate::sandbox::Sandbox;

const LONGEST_QUERY: usize = 4096;
/// Queries of one sandbox at a time. More are dropped, and their clients ask again.
const MOST_QUERIES: usize = 64;
const MOST_QUERIES_PER_CONNECTION: usize = 1000;
const IDLE_CONNECTION: Duration = Duration::from_secs(10);

pub async fn serve_udp(sandbox: Arc<Sandbox>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let slots = Arc::new(Semaphore::new(MOST_QUERIES));
    let mut buffer = [0; LONGEST_QUERY];
    loop {
        let Ok((read, client)) = socket.recv_from(&mut buffer).await else {
            // The kernel reports errors of earlier answers here.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            continue;
        };
        let (sandbox, socket, query) = (sandbox.clone(), socket.clone(), buffer[..read].to_vec());
        tokio::spawn(async move {
            if let Some(answer) = answer(&sandbox, &query, true).await {
                let _ = socket.try_send_to(&answer, client);
            }
            drop(slot);
        });
    }
}

pub async fn serve_tcp(sandbox: &Sandbox, client: &mut TcpStream) -> std::io::Result<()> {
    for _ in 0..MOST_QUERIES_PER_CONNECTION {
        let query = match timeout(IDLE_CONNECTION, read_query(client)).await? {
            Ok(query) => query,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(answer) = answer(sandbox, &query, false).await else {
            return Ok(());
        };
        let length = u16::try_from(answer.len()).map_err(std::io::Error::other)?;
        let framed = [&length.to_be_bytes(), answer.as_slice()].concat();
        timeout(IDLE_CONNECTION, client.write_all(&framed)).await??;
    }
    Ok(())
}

async fn read_query(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = usize::from(client.read_u16().await?);
    if length > LONGEST_QUERY {
        return Err(std::io::Error::other("a query of more than 4096 bytes"));
    }
    let mut query = vec![0; length];
    client.read_exact(&mut query).await?;
    Ok(query)
}
