//! Records packets that the sandbox's packet filter rejected.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio::net::UnixDatagram;

use crate::events::{Draft, Kind};
use crate::policy::{Reason, Verdict};
use crate::sandbox::Sandbox;

/// Each datagram is one packet, from its IP header.
pub async fn serve(sandbox: Arc<Sandbox>, socket: UnixDatagram) {
    let mut buffer = [0; 2048];
    while let Ok(read) = socket.recv(&mut buffer).await {
        if let Some(draft) = describe(&buffer[..read]) {
            sandbox.record(draft);
        }
    }
}

/// Reads only the fixed headers. `None`: not an IP packet.
fn describe(packet: &[u8]) -> Option<Draft> {
    let (protocol, address, payload) = match packet.first()? >> 4 {
        4 => {
            let header: &[u8; 20] = packet.first_chunk()?;
            let options = usize::from(header[0] & 0xf) * 4;
            let address = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
            (
                header[9],
                IpAddr::V4(address),
                packet.get(options..).unwrap_or_default(),
            )
        }
        6 => {
            let header: &[u8; 40] = packet.first_chunk()?;
            let address: [u8; 16] = header[24..40].try_into().ok()?;
            (header[6], IpAddr::V6(Ipv6Addr::from(address)), &packet[40..])
        }
        _ => return None,
    };
    let kind = match protocol {
        6 => Kind::Tcp,
        17 => Kind::Udp,
        1 | 58 => Kind::Icmp,
        _ => Kind::Other,
    };
    let port = match (kind, payload) {
        (Kind::Tcp | Kind::Udp, [_, _, high, low, ..]) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    };
    let reason = match port {
        53 | 853 => Reason::ResolverRefused,
        _ => Reason::Protocol,
    };
    let mut draft = Draft::new(kind, port, &Verdict::denied(reason));
    draft.address = Some(address.to_string());
    Some(draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(protocol: u8, words: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x40 | words];
        packet.extend([0; 8]);
        packet.push(protocol);
        packet.extend([0, 0, 192, 0, 0, 2, 198, 51, 100, 7]);
        packet.resize(usize::from(words) * 4, 0);
        packet.extend(payload);
        packet
    }

    fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        packet.extend([0; 16]);
        packet.extend("2001:db8::7".parse::<Ipv6Addr>().expect("an address").octets());
        packet.extend(payload);
        packet
    }

    #[test]
    fn describes_packets() {
        let table = [
            (
                v4(17, 5, &[0, 1, 1, 187]),
                Kind::Udp,
                "198.51.100.7",
                443,
                "protocol",
            ),
            (
                v4(17, 6, &[0, 1, 0, 53]),
                Kind::Udp,
                "198.51.100.7",
                53,
                "resolver_refused",
            ),
            (v4(17, 5, &[0, 1]), Kind::Udp, "198.51.100.7", 0, "protocol"),
            (v4(1, 5, &[8, 0, 0, 0]), Kind::Icmp, "198.51.100.7", 0, "protocol"),
            (v4(132, 5, &[]), Kind::Other, "198.51.100.7", 0, "protocol"),
            (
                v6(17, &[0, 1, 3, 85]),
                Kind::Udp,
                "2001:db8::7",
                853,
                "resolver_refused",
            ),
            (v6(58, &[128]), Kind::Icmp, "2001:db8::7", 0, "protocol"),
        ];
        for (packet, kind, address, port, reason) in table {
            let draft = describe(&packet).expect("a packet");
            let seen = (draft.kind, draft.address.as_deref(), draft.port, draft.reason);
            assert_eq!(seen, (kind, Some(address), port, Some(reason)));
        }
        for packet in [&[][..], &[0x45], &[0x60; 39], &[0x10; 60], &v4(17, 5, &[])[..19]] {
            assert!(describe(packet).is_none(), "{packet:?}");
        }
        assert_eq!(describe(&v4(17, 15, &[])[..20]).map(|draft| draft.port), Some(0));
    }
}
