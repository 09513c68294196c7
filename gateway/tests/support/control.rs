//! A client of the control socket.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub struct Control {
    stream: BufReader<UnixStream>,
    next: u64,
}

impl Control {
    pub fn connect(folder: &Path) -> Self {
        let stream = UnixStream::connect(folder.join("egress/control.sock")).expect("a control socket");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        Self {
            stream: BufReader::new(stream),
            next: 0,
        }
    }

    pub fn ask(&mut self, mut request: Value) -> Result<Value, Value> {
        self.next += 1;
        request["id"] = json!(self.next);
        self.send(request.to_string().as_bytes());
        let mut answer = self.line().expect("an answer");
        assert_eq!(answer["id"], request["id"], "{answer}");
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["ok"].take()),
        }
    }

    pub fn send(&mut self, line: &[u8]) {
        let _ = self.stream.get_mut().write_all(&[line, b"\n"].concat());
    }

    /// `None`: the gateway closed the connection.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect("JSON")),
        }
    }
}
