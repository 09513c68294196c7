//! The sockets of a namespace that is configured for real. Needs root.

use super::{Sockets, Unbound};
use std::io;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

/// Runs in a thread with a network namespace of its own. Does nothing without root.
fn in_namespace(act: impl FnOnce(Sockets) + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: takes flags; the namespace is this thread's.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return;
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.unwrap().success());
        let unbound = Unbound::open().unwrap();
        let sockets = unbound.configure().unwrap();
        act(sockets);
    });
    thread.join().unwrap();
}

#[test]
fn a_connection_to_any_address_arrives_with_its_destination() {
    in_namespace(|sockets| {
        for (name, address) in [("tcp4", "203.0.113.7:443"), ("tcp6", "[2001:db8::7]:443")] {
            let client = TcpStream::connect(address).unwrap();
            let (_, listener) = sockets.named().into_iter().find(|(own, _)| *own == name).unwrap();
            let listener = TcpListener::from(listener.try_clone().unwrap());
            let (accepted, from) = listener.accept().unwrap();
            assert_eq!(accepted.local_addr().unwrap().to_string(), address);
            assert_eq!(from, client.local_addr().unwrap());
        }
    });
}

#[test]
fn other_packets_fail_and_their_first_bytes_are_reported() {
    in_namespace(|sockets| {
        let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
        let error = sender.send_to(b"secret", "198.51.100.9:53").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        sockets.refused().unwrap().pump();
        let (_, out) = sockets.named().pop().unwrap();
        let mut packet = [0; 512];
        let length = crate::sys::read(out.as_raw_fd(), &mut packet).unwrap().unwrap();
        assert_eq!(length, 20 + 8 + 6);
        assert_eq!(
            (packet[0], packet[9], &packet[16..20]),
            (0x45, UDP, &[198, 51, 100, 9][..])
        );
        assert_eq!(crate::sys::read(out.as_raw_fd(), &mut packet).unwrap(), None);
    });
}

#[test]
fn dns_and_loopback_work() {
    in_namespace(|sockets| {
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.connect("192.0.0.3:53").unwrap();
        client.send(b"?").unwrap();
        let (_, dns) = sockets
            .named()
            .into_iter()
            .find(|(name, _)| *name == "dns")
            .unwrap();
        let dns = UdpSocket::from(dns.try_clone().unwrap());
        let (_, from) = dns.recv_from(&mut [0; 9]).unwrap();
        dns.send_to(b"!", from).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(client.recv(&mut [0; 9]).unwrap(), 1);

        let server = TcpListener::bind("127.0.0.1:443").unwrap();
        let mut stream = TcpStream::connect("127.0.0.1:443").unwrap();
        drop(server.accept().unwrap());
        assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0);
    });
}

/// Also not to a server of the sandbox at the same port.
#[test]
fn without_the_listeners_connections_are_refused() {
    in_namespace(|sockets| {
        let _server = TcpListener::bind("0.0.0.0:443").unwrap();
        drop(sockets);
        for address in ["203.0.113.7:443", "[2001:db8::7]:443"] {
            let error = TcpStream::connect(address).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{address}");
        }
    });
}

const UDP: u8 = 17;
