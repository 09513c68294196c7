//! Options of connected sockets.

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;

/// A socket that is dropped resets its connection, even if the gateway is killed. Only `close_gently` changes this.
pub fn prepare(stream: &TcpStream) {
    let _ = setsockopt(
        stream,
        sockopt::Linger,
        &linger {
            l_onoff: 1,
            l_linger: 0,
        },
    );
    let _ = stream.set_nodelay(true);
    let _ = setsockopt(stream, sockopt::KeepAlive, &true);
    let _ = setsockopt(stream, sockopt::TcpKeepIdle, &60);
    let _ = setsockopt(stream, sockopt::TcpKeepInterval, &15);
    let _ = setsockopt(stream, sockopt::TcpKeepCount, &4);
}

/// The kernel delivers what was written before it closes.
pub fn close_gently(stream: &TcpStream) {
    let _ = setsockopt(
        stream,
        sockopt::Linger,
        &linger {
            l_onoff: 0,
            l_linger: 0,
        },
    );
}
