//! Those who are connected to a shim, and what they may ask of it.

use super::Life;
use crate::shim::json::Json;
use crate::sys::read;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Whoever is connected to us.
pub struct Watcher {
    pub stream: UnixStream,
    /// Everything is stopped for as long as this one wants it, and at most as long as it is there.
    pub holds: bool,
}

impl Life<'_> {
    /// False when it has gone, or says what nobody understands.
    pub fn hear_watcher(&mut self, watcher: &mut Watcher, held: &mut bool, paused: &mut bool) -> bool {
        let mut buffer = [0; 64];
        let count = match read(watcher.stream.as_raw_fd(), &mut buffer) {
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
                    watcher.holds = reply.starts_with("{\"held");
                    if watcher.stream.write_all(reply.as_bytes()).is_err() {
                        watcher.holds = false;
                        return false;
                    }
                }
                b"release" => watcher.holds = false,
                // As a freezer does: for as long as nobody says otherwise. Only for where there is none.
                b"freeze" | b"thaw" => {
                    let wanted = line == b"freeze";
                    let done = match wanted {
                        true => self.freeze(),
                        // Whoever holds it lets it go on.
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
                    if watcher.stream.write_all(reply.as_bytes()).is_err() {
                        return false;
                    }
                }
                _ => return false,
            }
        }
        true
    }
}
