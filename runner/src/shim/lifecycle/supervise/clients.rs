//! Clients of the shim's socket and their requests.

use super::Supervisor;
use crate::shim::json::Json;
use crate::sys::read;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

pub struct Client {
    pub stream: UnixStream,
    /// The sandbox stays frozen until this client sends `release` or disconnects.
    pub holds: bool,
}

impl Supervisor<'_> {
    /// Returns false when the client is gone or sends an unknown request.
    pub fn handle_client(&mut self, client: &mut Client, held: &mut bool, paused: &mut bool) -> bool {
        let mut buffer = [0; 64];
        let count = match read(client.stream.as_raw_fd(), &mut buffer) {
            Ok(None) => return true,
            Ok(Some(count)) if count > 0 => count,
            _ => return false,
        };
        for line in buffer[..count].split(|byte| *byte == b'\n') {
            match line {
                b"" => {}
                b"kill" => {
                    self.kill_asked = true;
                    self.kill_all();
                }
                b"hold" => {
                    if !*held {
                        *paused = self.is_frozen();
                        *held = true;
                    }
                    let reply = match self.freeze() {
                        Ok(()) => "{\"held\":true}\n".to_owned(),
                        Err(error) => Json::Map(vec![("error".into(), Json::Text(error))]).line(),
                    };
                    client.holds = reply.starts_with("{\"held");
                    if client.stream.write_all(reply.as_bytes()).is_err() {
                        client.holds = false;
                        return false;
                    }
                }
                b"release" => client.holds = false,
                // Like a freezer: until the opposite request. Used only without a freezer.
                b"freeze" | b"thaw" => {
                    let wanted = line == b"freeze";
                    let done = match wanted {
                        true => self.freeze(),
                        // A `hold` keeps it frozen.
                        false if *held => Ok(()),
                        false => {
                            self.thaw();
                            Ok(())
                        }
                    };
                    *paused = wanted && done.is_ok();
                    let reply = match done {
                        Ok(()) => format!("{{\"held\":{wanted}}}\n"),
                        Err(error) => Json::Map(vec![("error".into(), Json::Text(error))]).line(),
                    };
                    if client.stream.write_all(reply.as_bytes()).is_err() {
                        return false;
                    }
                }
                _ => return false,
            }
        }
        true
    }
}
