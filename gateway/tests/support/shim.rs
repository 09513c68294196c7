//! Stands in for the shim: opens the sandbox's sockets and hands them to each gateway that connects.

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::namespace::Namespace;

/// Ports that have a listener. The real shim has one listener for all ports, which needs a packet filter.
const V4: [u16; 6] = [22, 53, 80, 443, 8080, 8081];

pub struct Shim {
    pub refused: UnixDatagram,
    clients: Arc<Mutex<Vec<UnixStream>>>,
}

impl Shim {
    pub fn new(sandbox: &Namespace, path: &Path) -> Self {
        sandbox.ip("addr add 192.0.0.2/32 dev lo");
        sandbox.ip("addr add 192.0.0.3/32 dev lo");
        sandbox.ip("route add local 0.0.0.0/0 dev lo");
        sandbox.ip("-6 route add local ::/0 dev lo");
        let (refused, refused_out) = UnixDatagram::pair().expect("a pair");
        let (tcp4, tcp6, dns) = sandbox.run(|| {
            let tcp4: Vec<_> = V4
                .iter()
                .map(|port| TcpListener::bind(("0.0.0.0", *port)).expect("a listener"))
                .collect();
            (
                tcp4,
                v6_listener(),
                UdpSocket::bind("192.0.0.3:53").expect("a socket"),
            )
        });
        let clients = Arc::default();
        let listener = UnixListener::bind(path).expect("a socket");
        let kept: Arc<Mutex<Vec<UnixStream>>> = Arc::clone(&clients);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let mut names = vec!["tcp4"; tcp4.len()];
                names.extend(["tcp6", "dns", "refused"]);
                let mut sockets: Vec<RawFd> = tcp4.iter().map(AsRawFd::as_raw_fd).collect();
                sockets.extend([tcp6.as_raw_fd(), dns.as_raw_fd(), refused_out.as_raw_fd()]);
                hand_over(&client, &names, &sockets);
                kept.lock().expect("clients").push(client);
            }
        });
        Self { refused, clients }
    }

    /// The sandbox ends.
    pub fn close(&self) {
        self.clients.lock().expect("clients").clear();
    }

    pub fn was_left(&self) -> bool {
        let mut clients = self.clients.lock().expect("clients");
        clients
            .last_mut()
            .is_none_or(|client| matches!(client.read(&mut [0]), Ok(0)))
    }
}

fn hand_over(client: &UnixStream, names: &[&str], sockets: &[RawFd]) {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let line = format!("{{\"version\":1,\"sockets\":[{}]}}\n", names.join(","));
    let rights = [ControlMessage::ScmRights(sockets)];
    sendmsg::<()>(
        client.as_raw_fd(),
        &[IoSlice::new(line.as_bytes())],
        &rights,
        MsgFlags::empty(),
        None,
    )
    .expect("sendmsg");
}

/// Only for IPv6, on port 443.
fn v6_listener() -> TcpListener {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn6, bind, listen, setsockopt, socket, sockopt,
    };
    let socket = socket(
        AddressFamily::Inet6,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .expect("a socket");
    setsockopt(&socket, sockopt::Ipv6V6Only, &true).expect("an option");
    let address: std::net::SocketAddrV6 = "[::]:443".parse().expect("an address");
    bind(socket.as_raw_fd(), &SockaddrIn6::from(address)).expect("bind");
    listen(&socket, Backlog::MAXCONN).expect("listen");
    TcpListener::from(socket)
}
