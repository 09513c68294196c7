//! `runner bridge`: connects the socket to standard input and output, for isolators that can run a command
//! inside but share no folder (remote Docker, gVisor, Kubernetes). It does not parse the data. It ends when
//! either side ends.

use crate::sys;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub fn run(socket: &Path) -> io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    let (input, output) = (stream.try_clone()?, stream);
    let fd = input.as_raw_fd();
    std::thread::Builder::new()
        .stack_size(128 * 1024)
        .spawn(move || {
            // After the half-close the runner closes the connection, which ends the other direction.
            let _ = copy(0, fd);
            let _ = input.shutdown(std::net::Shutdown::Write);
        })?;
    copy(output.as_raw_fd(), 1)
}

fn copy(from: i32, to: i32) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match sys::read(from, &mut buffer)? {
            Some(0) => return Ok(()),
            Some(count) => count,
            None => {
                // The descriptor is non-blocking.
                sys::wait_for(from, libc::POLLIN);
                continue;
            }
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match sys::write(to, rest)? {
                Some(count) => rest = &rest[count..],
                None => sys::wait_for(to, libc::POLLOUT),
            }
        }
    }
}
