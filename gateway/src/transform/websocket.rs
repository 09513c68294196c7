//! The bytes of a WebSocket after its upgrade. What the server sends is scrubbed like a body: without extensions, its
//! messages are not compressed, and the sandbox's key masks only what the sandbox sends.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::frames::Frames;
use super::scrub::{PAUSE, Scrubber};

const PIECE: usize = 32 * 1024;

type Io = TokioIo<Upgraded>;

pub(super) async fn tunnel(client: OnUpgrade, upstream: OnUpgrade, scrubber: Option<Arc<Scrubber>>) {
    let (Ok(client), Ok(upstream)) = tokio::join!(client, upstream) else {
        return;
    };
    let (client_read, client_write) = split(TokioIo::new(client));
    let (upstream_read, upstream_write) = split(TokioIo::new(upstream));
    // An error of one direction ends both; an end of one leaves the other open.
    let _ = tokio::try_join!(
        copy(client_read, upstream_write, None),
        copy(upstream_read, client_write, scrubber.map(Frames::new)),
    );
}

async fn copy(mut from: ReadHalf<Io>, mut to: WriteHalf<Io>, mut scrub: Option<Frames>) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        let read = match &mut scrub {
            Some(frames) if frames.releasable() => match timeout(PAUSE, from.read_buf(&mut buffer)).await {
                Ok(read) => read?,
                Err(_) => {
                    to.write_all(&frames.release()).await?;
                    to.flush().await?;
                    continue;
                }
            },
            _ => from.read_buf(&mut buffer).await?,
        };
        if read == 0 {
            let rest = scrub.as_mut().map_or(Bytes::new(), Frames::finish);
            to.write_all(&rest).await?;
            return to.shutdown().await;
        }
        let piece = buffer.split().freeze();
        let piece = match &mut scrub {
            Some(frames) => frames.push(piece)?,
            None => piece,
        };
        to.write_all(&piece).await?;
        to.flush().await?;
    }
}
