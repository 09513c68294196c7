//! Rejected packets: the kernel reports them through NFLOG, and the gateway reads them from a socket.

use crate::netlink::{self, ACK, Message, REQUEST, attributes, confirm, send};
use crate::sys::{check, own};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The NFLOG group of the filter's `log` expression.
pub const GROUP: u16 = 1;
/// Of each packet.
pub const SNAP_BYTES: u32 = 256;

const SUBSYSTEM: u16 = 4 << 8;
const PACKET: u16 = SUBSYSTEM;
const CONFIG: u16 = SUBSYSTEM | 1;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const NFULA_PAYLOAD: u16 = 9;

/// Moves packets from NFLOG to the gateway's socket. Drops them while nothing reads that.
pub struct Refused {
    log: OwnedFd,
    into: OwnedFd,
}

impl Refused {
    /// `log` is a NETLINK_NETFILTER socket of the namespace. Also returns the end for the gateway.
    pub fn open(log: OwnedFd) -> io::Result<(Refused, OwnedFd)> {
        let request = subscription();
        send(&log, &request)?;
        confirm(&log, 1)?;
        let (from, into) = datagram_pair()?;
        Ok((Refused { log, into }, from))
    }

    /// Everything that has arrived. Errors mean that packets were lost.
    pub fn pump(&self) {
        // An overflow is reported once; then reading goes on.
        for _ in 0..1024 {
            match netlink::receive(&self.log) {
                Ok(Some(answers)) => answers.iter().filter_map(packet_in).for_each(|packet| {
                    // SAFETY: pointer and length describe `packet`.
                    unsafe {
                        libc::send(
                            self.into.as_raw_fd(),
                            packet.as_ptr().cast(),
                            packet.len(),
                            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                        )
                    };
                }),
                Ok(None) => return,
                Err(_) => {}
            }
        }
    }

    pub fn log(&self) -> &OwnedFd {
        &self.log
    }
}

/// The beginning of a packet, from its IP header.
fn packet_in(answer: &netlink::Answer) -> Option<&[u8]> {
    if answer.kind != PACKET {
        return None;
    }
    let fields = attributes(answer.payload.get(4..)?);
    fields
        .into_iter()
        .find_map(|(kind, data)| (kind == NFULA_PAYLOAD).then_some(data))
}

/// Subscribes to the group: the first bytes of each packet, without batching.
fn subscription() -> Vec<u8> {
    let [high, low] = GROUP.to_be_bytes();
    let mut message = Message::new(CONFIG, REQUEST | ACK, 1, &[0, 0, high, low]);
    let mut mode = SNAP_BYTES.to_be_bytes().to_vec();
    mode.extend([COPY_PACKET, 0]);
    message.attribute(1, &[BIND]).attribute(2, &mode).number(5, 1);
    message.finish()
}

fn datagram_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: `ends` has room for the two descriptors that the call writes.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    Ok((own(ends[0])?, own(ends[1])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_of_a_message_is_found_and_other_messages_are_ignored() {
        let mut message = Message::new(PACKET, 0, 0, &[2, 0, 0, 1]);
        message
            .attribute(1, &[8, 0, 3, 0])
            .attribute(NFULA_PAYLOAD, b"E...");
        let payload = message.finish()[16..].to_vec();
        let answer = |kind, payload| netlink::Answer {
            kind,
            sequence: 0,
            payload,
        };
        assert_eq!(packet_in(&answer(PACKET, payload.clone())), Some(&b"E..."[..]));
        assert_eq!(packet_in(&answer(CONFIG, payload)), None);
        assert_eq!(packet_in(&answer(PACKET, vec![2])), None);
    }
}
