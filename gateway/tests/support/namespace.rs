//! Network namespaces, each kept by a sleeping process.

use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

pub struct Namespace {
    keeper: Child,
    file: File,
}

impl Namespace {
    pub fn new() -> Self {
        let mut command = Command::new("sleep");
        command.arg("600");
        // SAFETY: both calls are system calls without memory.
        unsafe {
            command.pre_exec(|| {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
                Ok(nix::sched::unshare(CloneFlags::CLONE_NEWNET)?)
            });
        }
        let keeper = command.spawn().expect("a namespace; these tests need root");
        let file = File::open(format!("/proc/{}/ns/net", keeper.id())).expect("a namespace");
        let namespace = Self { keeper, file };
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs in a thread that is in the namespace. Sockets that it opens stay there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let enter = || {
                setns(&self.file, CloneFlags::CLONE_NEWNET).expect("setns");
                work()
            };
            scope.spawn(enter).join().expect("a thread")
        })
    }

    pub fn ip(&self, arguments: &str) {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = self
            .run(|| Command::new("ip").args(&arguments).output())
            .expect("ip");
        assert!(
            output.status.success(),
            "ip {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// This namespace reaches everything through the other one.
    pub fn link_to(&self, outside: &Namespace) {
        self.ip(&format!(
            "link add out type veth peer name in netns {}",
            outside.keeper.id()
        ));
        for (namespace, device, last) in [(self, "out", 1), (outside, "in", 2)] {
            namespace.ip(&format!("addr add 192.168.77.{last}/30 dev {device}"));
            namespace.ip(&format!("addr add fd77::{last}/64 dev {device} nodad"));
            namespace.ip(&format!("link set {device} up"));
        }
        self.ip("route add default via 192.168.77.2");
        self.ip("-6 route add default via fd77::2");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
