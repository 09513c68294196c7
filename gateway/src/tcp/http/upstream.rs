//! The connection to the outside of one HTTP connection of a sandbox. It is opened with the first allowed request, and
//! again when the other side has closed it.

use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use tokio::task::AbortHandle;

use crate::tcp::connect;
use crate::tcp::io::{Io, Meter};

const LONGEST_HEAD: usize = 256 * 1024;

pub struct Upstream {
    address: SocketAddr,
    meter: Meter,
    open: Option<Open>,
}

pub enum Lost {
    /// There was no connection, or it failed with its first request.
    AtFirst,
    /// Clients expect this from a server that closes idle connections, and send the request again.
    WhileReused,
}

struct Open {
    sender: SendRequest<Incoming>,
    driver: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Upstream {
    pub fn new(address: SocketAddr, meter: Meter) -> Self {
        Self {
            address,
            meter,
            open: None,
        }
    }

    pub async fn send(&mut self, mut request: Request<Incoming>) -> Result<Response<Incoming>, Lost> {
        if let Some(open) = &mut self.open
            && open.sender.ready().await.is_ok()
        {
            match open.sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                // The other side closed first: nothing of the request was sent.
                Err(mut error) => request = error.take_message().ok_or(Lost::WhileReused)?,
            }
        }
        let mut open = self.connect().await.map_err(|_| Lost::AtFirst)?;
        let response = open.sender.send_request(request).await.map_err(|_| Lost::AtFirst);
        self.open = Some(open);
        response
    }

    async fn connect(&self) -> io::Result<Open> {
        let stream = connect::to(self.address).await?;
        let stream = TokioIo::new(Io::new(stream, Vec::new(), Some(self.meter.clone())));
        let mut builder = Builder::new();
        builder.preserve_header_case(true).max_buf_size(LONGEST_HEAD);
        let (sender, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
        let driver = tokio::spawn(connection.with_upgrades()).abort_handle();
        Ok(Open { sender, driver })
    }
}
