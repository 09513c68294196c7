//! Addresses that lead inside: private, link-local, metadata, loopback, multicast and reserved ones.
//!
//! Documentation ranges count as public: they are routed nowhere, and tests place their servers there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4-mapped IPv6 addresses as IPv4.
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The IPv4 address that a router behind NAT64 or 6to4 finds in an IPv6 address, and sends the packet to.
pub fn translated(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(embedded(high, low).into()),
        _ => None,
    }
}

pub fn is_inside(address: IpAddr) -> bool {
    match canonical(address) {
        IpAddr::V4(address) => is_inside_v4(address),
        IpAddr::V6(address) => is_inside_v6(address),
    }
}

const AZURE_METADATA: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

fn is_inside_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        [0 | 10 | 127, ..] => true,
        [100, second, ..] if second & 0xc0 == 64 => true,
        [169, 254, ..] => true,
        [172, second, ..] if second & 0xf0 == 16 => true,
        [192, 0, 0, _] | [192, 88, 99, _] | [192, 168, ..] => true,
        [198, 18 | 19, ..] => true,
        [first, ..] if first >= 224 => true,
        _ => address == AZURE_METADATA,
    }
}

fn is_inside_v6(address: Ipv6Addr) -> bool {
    let words = address.segments();
    match words {
        // NAT64 and 6to4
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_inside_v4(embedded(high, low)),
        // Teredo, ORCHID and other protocol assignments: 2001::/23
        [0x2001, second, ..] if second < 0x200 => true,
        // ISATAP
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] if is_inside_v4(embedded(high, low)) => true,
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_addresses_that_lead_inside() {
        let inside = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.3",
            "192.0.0.8",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:1ff::1",
            "2002:7f00:1::1",
            "2002:a00:1::",
            "2002:c0a8:101::1",
            "2a00:1450::5efe:a00:1",
            "2a00:1450::200:5efe:7f00:1",
            "fc00::1",
            "fd00:ec2::254",
            "fd73:616e:646b::2",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
            "::2.3.4.5",
        ];
        for text in inside {
            assert!(is_inside(text.parse().expect(text)), "{text}");
        }
    }

    #[test]
    fn knows_public_addresses() {
        let public = [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.1",
            "140.82.121.3",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.0.2.1",
            "198.17.0.1",
            "198.20.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:4860:4860::8888",
            "2001:db8::7",
            "2002:808:808::1",
            "2606:4700::1111",
        ];
        for text in public {
            assert!(!is_inside(text.parse().expect(text)), "{text}");
        }
    }
}
