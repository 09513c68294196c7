//! The control socket: one JSON object per line.

mod operations;
mod request;

use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use crate::gateway::Gateway;
use request::{Failure, Operation, Request};

const LONGEST_LINE: u64 = 4 * 1024 * 1024;
const WAITING_LINES: usize = 256;

pub async fn accept(gateway: Arc<Gateway>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                gateway.controllers.fetch_add(1, Relaxed);
                let gateway = gateway.clone();
                tokio::spawn(async move {
                    let _leaving = Leaving(gateway.clone());
                    let _ = serve(gateway, stream).await;
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

struct Leaving(Arc<Gateway>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.controllers.fetch_sub(1, Relaxed);
    }
}

/// Requests of one connection run one after another. Followed events arrive in between.
async fn serve(gateway: Arc<Gateway>, stream: UnixStream) -> io::Result<()> {
    let (read, write) = stream.into_split();
    let (lines, waiting) = mpsc::channel(WAITING_LINES);
    let requests = async {
        let mut read = BufReader::new(read);
        while let Some(line) = read_line(&mut read).await? {
            answer(&gateway, &line, &lines).await;
        }
        Ok(())
    };
    // Either side's end ends the connection, and with it the senders of followed events.
    tokio::select! {
        ended = requests => ended,
        ended = write_lines(write, waiting) => ended,
    }
}

async fn read_line(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    read.take(LONGEST_LINE + 1).read_until(b'\n', &mut line).await?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(io::Error::other("a line of more than 4 MiB, or without its end")),
    }
}

async fn write_lines(mut write: OwnedWriteHalf, mut waiting: mpsc::Receiver<Value>) -> io::Result<()> {
    while let Some(line) = waiting.recv().await {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        write.write_all(&bytes).await?;
    }
    Ok(())
}

async fn answer(gateway: &Arc<Gateway>, line: &[u8], lines: &mpsc::Sender<Value>) {
    let parsed: Result<Request, _> = serde_json::from_slice(line);
    let (id, result) = match parsed {
        Err(error) => (
            Value::Null,
            Err(Failure::invalid(format!("the request: {error}"))),
        ),
        Ok(Request { id, operation }) => match Operation::parse(operation) {
            Err(failure) => (id, Err(failure)),
            Ok(Operation::Events(request)) => {
                operations::events(gateway, id, request, lines).await;
                return;
            }
            Ok(operation) => (id, operations::run(gateway, operation).await),
        },
    };
    let answer = match result {
        Ok(ok) => json!({ "id": id, "ok": ok }),
        Err(Failure { code, message }) => json!({ "id": id, "error": { "code": code, "message": message } }),
    };
    let _ = lines.send(answer).await;
}
