//! The network of a sandbox with outbound access: a network namespace that pasta connects from user space.
//!
//! ```text
//! host's user namespace          shim, runtime
//! └─ N, owned by id `user`       pasta: root of N, unprivileged on the host
//!    └─ network namespace        lo, pasta's interface, the packet filter
//!       └─ the sandbox, in a user namespace that does not own the network
//! ```
//!
//! pasta has no privileges on the host: it runs in N, as an id that owns nothing. The sandbox's root has no
//! capability in N, so it can change neither the interface nor the filter. The filter is installed before the
//! runtime starts anything.

use super::cgroup::Groups;
use super::failure::{Failure, at};
use super::lifecycle::prepared::{above, unblock_signals};
use super::mounts::{self, mount};
use super::task::Network;
use super::{host_proc, network};
use crate::fence::{self, AddressWatch};
use crate::sys::{check, pass, pipe, read, socket_pair, write};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The network namespace, as a file in the stage. `config.json` and pasta's arguments name it.
pub const NAMESPACE: &str = "network";
const TUN: &str = "/dev/net/tun";

/// pasta while it starts. `pasta` exits when the interface exists and the daemon runs in the background.
pub struct Starting {
    pub pasta: libc::pid_t,
    filter: OwnedFd,
}

/// The packet filter, which follows the host's addresses.
pub struct PacketFilter {
    filter: OwnedFd,
    watch: AddressWatch,
    own: Vec<IpAddr>,
}

/// Creates the namespaces and starts pasta in the sandbox's control groups, because its work counts as the
/// sandbox's.
pub fn start(network: &Network, groups: &Groups, log: &OwnedFd) -> Result<Starting, Failure> {
    at(TUN, open_tun())?;
    let (here, there) = at("network", socket_pair())?;
    let (go, we_go) = at("network", pipe())?;
    // SAFETY: this process has one thread, so the child may use everything that the parent may.
    let pasta = at("network", check(unsafe { libc::fork() }))?;
    if pasta == 0 {
        drop((here, we_go));
        let message = become_pasta(network, groups, log, &there, &go);
        let _ = write(log.as_raw_fd(), message.as_bytes());
        // SAFETY: leaves without running the parent's destructors.
        unsafe { libc::_exit(125) };
    }
    drop((there, go));
    let made = prepare(network, pasta, &here).and_then(|filter| {
        write(we_go.as_raw_fd(), b"x")?;
        Ok(filter)
    });
    Ok(Starting {
        pasta,
        filter: at("network", made)?,
    })
}

/// Runs in the parent: maps the child's ids and binds the child's network namespace to a name.
fn prepare(network: &Network, child: libc::pid_t, socket: &OwnedFd) -> io::Result<OwnedFd> {
    let gone = || io::Error::other("pasta could not be prepared");
    let mut byte = [0];
    if read(socket.as_raw_fd(), &mut byte)? != Some(1) {
        return Err(gone());
    }
    let line = format!("0 {} 1\n", network.user);
    fs::write(format!("/proc/{child}/uid_map"), &line)?;
    fs::write(format!("/proc/{child}/gid_map"), &line)?;
    write(socket.as_raw_fd(), b"x")?;
    let filter = pass::receive(socket)?.ok_or_else(gone)?;
    let namespace = pass::receive(socket)?.ok_or_else(gone)?;
    fs::write(NAMESPACE, "")?;
    let source = format!("/proc/self/fd/{}", namespace.as_raw_fd());
    mount(&source, NAMESPACE, "", libc::MS_BIND, "")?;
    Ok(filter)
}

impl Starting {
    /// pasta runs in the background: installs the filter. Opens the watch before reading the addresses, so
    /// that no change is missed.
    pub fn close(self, network: &Network) -> Result<PacketFilter, Failure> {
        let watch = at("addresses of the host", AddressWatch::open())?;
        let mut fence = PacketFilter {
            filter: self.filter,
            watch,
            own: Vec::new(),
        };
        fence.own = at("addresses of the host", fence::own_addresses())?;
        fence.apply(network)?;
        Ok(fence)
    }
}

impl PacketFilter {
    /// The host gained or lost an address.
    pub fn follow(&mut self, network: &Network) -> Result<(), Failure> {
        self.watch.drain();
        let own = at("addresses of the host", fence::own_addresses())?;
        if own != self.own {
            self.own = own;
            self.apply(network)?;
        }
        Ok(())
    }

    fn apply(&self, network: &Network) -> Result<(), Failure> {
        at(
            "packet filter (nf_tables) of the sandbox's network",
            fence::apply(&self.filter, &network.rules, &self.own),
        )
    }
}

impl AsRawFd for PacketFilter {
    fn as_raw_fd(&self) -> RawFd {
        self.watch.as_raw_fd()
    }
}

/// Some machines restrict the tun device to root. This mount namespace then shows one that everyone may use.
/// The sandbox never sees it.
fn open_tun() -> io::Result<()> {
    let tun = fs::metadata(TUN)?;
    // SAFETY: takes no argument.
    let root = unsafe { libc::geteuid() } == 0;
    if tun.mode() & 0o006 == 0o006 || !root {
        return Ok(());
    }
    fs::create_dir("dev")?;
    let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
    mount("dev", "dev", "tmpfs", flags, "mode=0755,size=4k")?;
    // SAFETY: a C string constant and numbers.
    match check(unsafe { libc::mknod(c"dev/tun".as_ptr(), libc::S_IFCHR | 0o666, tun.rdev()) }) {
        // Root of an account's user namespace cannot create devices. If the account may not use this one,
        // pasta reports it.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Ok(()),
        result => result?,
    };
    fs::set_permissions("dev/tun", fs::Permissions::from_mode(0o666))?;
    mount("dev/tun", TUN, "", libc::MS_BIND, "")
}

/// Returns only on failure, with the reason.
fn become_pasta(network: &Network, groups: &Groups, log: &OwnedFd, socket: &OwnedFd, go: &OwnedFd) -> String {
    let prepared = groups.join().and_then(|()| {
        enter_user_namespace(network.user, socket)
            .and_then(|()| make_network(socket))
            .and_then(|()| match read(go.as_raw_fd(), &mut [0])? {
                Some(1) => Ok([above(log)?, above(log)?, above(&pipe()?.0)?]),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            })
            .map_err(|error| format!("network: {error}"))
    });
    let [output, errors, input] = match prepared {
        Ok(streams) => streams,
        Err(message) => return message,
    };
    unblock_signals();
    let Some((program, arguments)) = network.argv.split_first() else {
        return "network: argv is empty".to_owned();
    };
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .exec();
    format!("{program}: {error}")
}

/// Switches to an id that owns nothing, then becomes root of a user namespace that this id owns. Some
/// machines do not let ordinary users create one, so the capabilities are kept until then.
fn enter_user_namespace(user: u32, socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: numbers only; no list of groups is read when it has no length.
    unsafe {
        check(libc::prctl(libc::PR_SET_KEEPCAPS, 1))?;
        if libc::geteuid() != user {
            check(libc::setgroups(0, std::ptr::null()))?;
            check(libc::setresgid(user, user, user))?;
            check(libc::setresuid(user, user, user))?;
        }
    }
    mounts::raise_capabilities()?;
    // SAFETY: numbers only. The parent finds our maps in /proc only while we are dumpable.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWUSER))?;
        check(libc::prctl(libc::PR_SET_DUMPABLE, 1))?;
    }
    write(socket.as_raw_fd(), b"x")?;
    if read(socket.as_raw_fd(), &mut [0])? != Some(1) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: numbers only.
    unsafe {
        check(libc::setresgid(0, 0, 0))?;
        check(libc::setresuid(0, 0, 0))?;
    }
    Ok(())
}

/// A child creates the network namespace and passes it out, because pasta must stay in the host's network.
fn make_network(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: this process has one thread, so the child may use everything that the parent may.
    let child = check(unsafe { libc::fork() })?;
    if child == 0 {
        let made = network::enter().and_then(|()| {
            configure()?;
            pass::send(socket, &fence::filter_socket()?)?;
            pass::send(socket, &host_proc::open("/proc/self/ns/net", libc::O_RDONLY)?)
        });
        let code = made
            .err()
            .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // SAFETY: leaves without running the parent's destructors.
        unsafe { libc::_exit(code.clamp(0, 255)) };
    }
    let mut status = 0;
    // SAFETY: the out-parameter is valid for the call; the child is ours.
    check(unsafe { libc::waitpid(child, &mut status, 0) })?;
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.max(1))),
    }
}

/// Settings for future interfaces. The engine assigns the addresses, so skip duplicate detection (which
/// takes a second) and router solicitation.
fn configure() -> io::Result<()> {
    for name in ["accept_dad", "accept_ra", "autoconf", "router_solicitations"] {
        match fs::write(format!("/proc/sys/net/ipv6/conf/default/{name}"), "0") {
            // No IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}
