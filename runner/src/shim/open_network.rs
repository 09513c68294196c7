//! The network of a sandbox that may reach out: a network namespace of its own, which pasta joins to the world from user space.
//!
//! ```text
//! host's user namespace          shim, runtime
//! └─ N, owned by id `user`       pasta: root of N, which is nobody on the host
//!    └─ network namespace        lo, pasta's interface, our packet filter
//!       └─ the sandbox lives in it, in a user namespace that does not own it
//! ```
//!
//! pasta never has a right on the host: it is started as an id that owns nothing, in N. The sandbox's root has no capability in N, so it can change
//! neither interface nor filter. The filter is complete before the runtime is told to start anything.

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

/// The network namespace, as a file on the stage. `config.json` and pasta's arguments name it.
pub const NAMESPACE: &str = "network";
const TUN: &str = "/dev/net/tun";

/// pasta on its way. It goes to the background, which ends `pasta`, when the interface is there.
pub struct Starting {
    pub pasta: libc::pid_t,
    filter: OwnedFd,
}

/// What keeps a sandbox from addresses that are closed to it.
pub struct Fence {
    filter: OwnedFd,
    watch: AddressWatch,
    own: Vec<IpAddr>,
}

/// Makes the namespaces and starts pasta. Its work is the sandbox's work, so it joins the sandbox's groups.
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

/// The parent's part: names for the child's ids, and a name for the namespace that it makes.
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
    /// pasta has gone to the background: closes what is to be closed. Watching begins before looking, so that no address is missed in between.
    pub fn close(self, network: &Network) -> Result<Fence, Failure> {
        let watch = at("addresses of the host", AddressWatch::open())?;
        let mut fence = Fence {
            filter: self.filter,
            watch,
            own: Vec::new(),
        };
        fence.own = at("addresses of the host", fence::own_addresses())?;
        fence.apply(network)?;
        Ok(fence)
    }
}

impl Fence {
    /// The host has got or lost an address: the filter follows.
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

impl AsRawFd for Fence {
    fn as_raw_fd(&self) -> RawFd {
        self.watch.as_raw_fd()
    }
}

/// Only root may use the tun device on some machines. This mount namespace then shows one that everyone may use; the sandbox never sees it.
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
        // Root of an account's user namespace cannot make devices. The account may use this one, or pasta says that it may not.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Ok(()),
        result => result?,
    };
    fs::set_permissions("dev/tun", fs::Permissions::from_mode(0o666))?;
    mount("dev/tun", TUN, "", libc::MS_BIND, "")
}

/// Returns only with what failed.
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
        return "network: no program".to_owned();
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

/// Gives up our id for one that owns nothing, then becomes root of a user namespace that this id owns. The kernel lets an ordinary id make one on some
/// machines only, so our capabilities stay until it is made; they end with it.
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

/// A child makes the network and hands it out: only the host's root could return from it, and pasta needs the host's network.
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

/// For interfaces that are made from now on. Addresses are ours to give: the kernel need not look for another holder of them, which takes a second, nor ask
/// routers for more.
fn configure() -> io::Result<()> {
    for name in ["accept_dad", "accept_ra", "autoconf", "router_solicitations"] {
        match fs::write(format!("/proc/sys/net/ipv6/conf/default/{name}"), "0") {
            // A machine without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}
