//! The life of a sandbox: start, wait, end. One thread, one `poll`.

mod clients;
mod network;

use super::prepared::{Prepared, Runtime, kill_all};
use super::sigstop::Stopped;
use super::start;
use crate::egress::{Handover, Unbound};
use crate::shim::answer;
use crate::shim::cgroup::Groups;
use crate::shim::failure::{Failure, at};
use crate::shim::gvisor::{self, ConnectionPasser};
use crate::shim::host_proc::HostProc;
use crate::shim::json::Json;
use crate::shim::open_network::PacketFilter;
use crate::shim::poll::{listen, now_ms, poll, poll_all, write_whole};
use crate::shim::task::Task;
use crate::shim::verify::{Kind, verify};
use crate::sys::read;
use clients::Client;
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// The start of the error output is kept, because it names the cause. The rest is discarded.
const MAX_ERRORS: usize = 4096;
const MAX_CLIENTS: usize = 64;

struct Supervisor<'a> {
    task: &'a Task,
    host: HostProc,
    me: u32,
    start_time: i64,
    kind: Kind,
    /// Set if the runner cannot listen itself (gVisor).
    passer: Option<ConnectionPasser>,
    groups: Groups,
    /// Set if the sandbox has a network.
    fence: Option<PacketFilter>,
    /// Set if its network has a policy.
    handover: Option<Handover>,
    /// Used if the control groups cannot freeze.
    stopped: Stopped,
    signals: OwnedFd,
    errors: Option<OwnedFd>,
    error_text: Vec<u8>,
    /// The sandbox's PID 1, as a pid in the shim's namespace.
    init: Option<libc::pid_t>,
    runtime: libc::pid_t,
    runtime_status: Option<i32>,
    /// How other children ended. The runtime leaves helpers behind that the shim adopts.
    ended: Vec<(libc::pid_t, i32)>,
    kill_asked: bool,
    /// The line that identifies the shim. It also proves that the shim is alive: the kernel accepts
    /// connections even for a dying process.
    greeting: String,
}

/// Returns when the sandbox has ended and everything is removed.
pub fn live(task: &Task, mut prepared: Prepared) -> Result<(), Failure> {
    let started = now_ms();
    let witness = match listen(&task.witness) {
        Ok(witness) => witness,
        Err(error) => {
            remove_run_folder(task);
            return Err(prepared.failed(format!("{}: {error}", task.witness)).into());
        }
    };
    let begun = start::start(task, &mut prepared);
    let Prepared {
        host,
        me,
        start_time,
        signals,
        groups,
        runtime,
        users,
        account,
    } = prepared;
    drop(users);
    let Runtime {
        pid,
        listener,
        inside,
        egress,
        ready,
        errors,
    } = runtime;
    // Otherwise the runner owns the listener now.
    let passer = inside.map(|inside| ConnectionPasser { listener, inside });
    let mut life = Supervisor {
        task,
        host,
        me,
        start_time,
        kind: match passer {
            Some(_) => Kind::Sentry,
            None if account => Kind::Account,
            None => Kind::Root,
        },
        passer,
        groups,
        fence: None,
        handover: None,
        stopped: Stopped::default(),
        signals,
        errors: Some(errors),
        error_text: Vec::new(),
        init: None,
        runtime: pid,
        runtime_status: None,
        ended: Vec::new(),
        kill_asked: false,
        greeting: String::new(),
    };
    if let Err(mut failure) = begun.and_then(|users| life.wait_for_runner(ready, users, egress)) {
        life.kill_all();
        life.reap_all();
        life.read_errors();
        let left = life.groups.remove();
        life.handover = None;
        remove_run_folder(task);
        let said = String::from_utf8_lossy(&life.error_text).trim().to_owned();
        if !said.is_empty() {
            failure = failure.with(format_args!(": {said}"));
        }
        if let Err(also) = left {
            failure = failure.with(format_args!("; cleanup also failed: {also}"));
        }
        return Err(failure);
    }
    let mut clients = life.wait(&witness);
    let end = life.end(started);
    let line = end.line();
    let written = write_whole(&task.end, &line);
    let removed = life.groups.remove();
    let _ = fs::remove_file(&task.state);
    life.handover = None;
    remove_run_folder(task);
    drop(witness);
    for client in &mut clients {
        let _ = client.stream.write_all(line.as_bytes());
    }
    at(&task.end, written)?;
    Ok(removed?)
}

impl Supervisor<'_> {
    /// Waits until the runner responds and is verified. Any failure ends the sandbox.
    fn wait_for_runner(&mut self, ready: OwnedFd, users: OwnedFd, egress: Unbound) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_millis(self.task.ready_timeout_ms.max(0) as u64);
        // Before anything of the sandbox runs, so that its network is never open without the filter.
        self.connect(egress, deadline)?;
        let before = self.host.children(self.me)?;
        self.hand_over(deadline)?;
        self.until_ready(&ready, deadline)?;
        drop((ready, users));
        let known = match self.kind {
            Kind::Sentry => Some(gvisor::sentry()?),
            _ => None,
        };
        let (init, host_pid) = self.host.adopted(self.me, known, &before)?;
        self.init = Some(init);
        if known.is_none() {
            // A higher priority lets the runner respond while the sandbox is busy; its children get normal
            // priority. Best effort.
            // SAFETY: takes numbers, of our own child.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, init as libc::id_t, -20) };
        }
        verify(self.task, self.kind, &self.host, host_pid)?;
        self.announce(host_pid)
    }

    /// Waits until the runtime opens the pipe.
    fn hand_over(&mut self, deadline: Instant) -> Result<(), String> {
        while !start::hand_over(&self.task.config).map_err(|error| format!("config.json: {error}"))? {
            // `until_ready` reports a runtime that ended early.
            if self.runtime_status.is_some() || self.kill_asked || Instant::now() > deadline {
                break;
            }
            poll([self.signals.as_raw_fd()], Some(Duration::from_millis(1)));
            self.handle_signals();
        }
        Ok(())
    }

    fn until_ready(&mut self, ready: &OwnedFd, deadline: Instant) -> Result<(), String> {
        let mut answered = false;
        loop {
            match self.runtime_status {
                Some(0) if answered => return Ok(()),
                Some(status) if status != 0 => {
                    return Err(format!("the runtime failed ({})", describe(status)));
                }
                _ if self.kill_asked => return Err("the sandbox was killed during its start".to_owned()),
                _ => {}
            }
            let wait = deadline.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Err(format!(
                    "no answer from the runner in {} ms",
                    self.task.ready_timeout_ms
                ));
            }
            let ready_fd = if answered { -1 } else { ready.as_raw_fd() };
            let errors_fd = self.errors.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let [signalled, said, at_ready] =
                poll([self.signals.as_raw_fd(), errors_fd, ready_fd], Some(wait));
            if said {
                self.read_errors();
            }
            if at_ready {
                match read(ready.as_raw_fd(), &mut [0; 1]) {
                    Ok(Some(1)) => answered = true,
                    // Runtime and runner closed the pipe. The runtime's status says more, if it failed.
                    _ => {
                        self.wait_for_runtime(deadline);
                        if self.runtime_status.is_none_or(|status| status == 0) {
                            return Err("the runner ended before it answered".to_owned());
                        }
                    }
                }
            }
            if signalled {
                self.handle_signals();
            }
        }
    }

    /// Writes the state file and the response on standard output.
    fn announce(&mut self, host_pid: u32) -> Result<(), Failure> {
        let number = |value: Option<i64>| value.map_or(Json::Null, Json::Number);
        let facts = vec![
            (
                "version".to_owned(),
                Json::Number(crate::shim::task::RECORD_VERSION),
            ),
            ("pid".to_owned(), Json::Number(self.me.into())),
            ("startTime".to_owned(), Json::Number(self.start_time)),
            ("group".to_owned(), Json::Text(self.groups.name.clone())),
            ("runnerPid".to_owned(), Json::Number(host_pid.into())),
            (
                "runnerStartTime".to_owned(),
                number(self.host.start_time(host_pid)),
            ),
        ];
        self.greeting = Json::Map(facts.clone()).line();
        at(&self.task.state, write_whole(&self.task.state, &self.greeting))?;
        answer(&Ok(facts));
        Ok(())
    }

    /// Waits until PID 1 has ended. Returns the connected clients.
    fn wait(&mut self, witness: &UnixListener) -> Vec<Client> {
        let mut clients: Vec<Client> = Vec::new();
        // Frozen by `freeze` or before the first `hold`, so the last `release` must not thaw.
        let mut paused = false;
        // Frozen by a `hold`, even if its client is gone.
        let mut held = false;
        while !self.init_ended() {
            let errors_fd = self.errors.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let passer_fd = self.passer.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let fence_fd = self.fence.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let mut fds = vec![
                self.signals.as_raw_fd(),
                errors_fd,
                witness.as_raw_fd(),
                passer_fd,
                fence_fd,
                self.handover.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            ];
            fds.extend(clients.iter().map(|client| client.stream.as_raw_fd()));
            let ready = poll_all(&fds, None);
            if ready[1] {
                self.read_errors();
            }
            if ready[3] {
                self.passer.iter().for_each(ConnectionPasser::pass_pending);
            }
            if ready[4] {
                self.follow_addresses();
            }
            if ready[5] {
                self.handover.iter_mut().for_each(Handover::serve);
            }
            let mut index = 6;
            clients.retain_mut(|client| {
                index += 1;
                !ready[index - 1] || self.handle_client(client, &mut held, &mut paused)
            });
            if held && !clients.iter().any(|client| client.holds) {
                held = false;
                if !paused {
                    self.thaw();
                }
            }
            if ready[2]
                && let Ok((mut stream, _)) = witness.accept()
                && clients.len() < MAX_CLIENTS
                && stream.set_nonblocking(true).is_ok()
                && stream.write_all(self.greeting.as_bytes()).is_ok()
            {
                clients.push(Client { stream, holds: false });
            }
            if ready[0] {
                self.handle_signals();
            }
        }
        clients
    }

    fn read_errors(&mut self) {
        let mut buffer = [0; 1024];
        let Some(errors) = &self.errors else { return };
        match read(errors.as_raw_fd(), &mut buffer) {
            Ok(None) => {}
            Ok(Some(count)) if count > 0 && self.error_text.len() < MAX_ERRORS => {
                self.error_text.extend_from_slice(&buffer[..count]);
            }
            // End of the output, or the limit is reached. Further writes of the sandbox fail with EPIPE.
            _ => self.errors = None,
        }
    }

    fn handle_signals(&mut self) {
        // SAFETY: signalfd_siginfo is plain data, valid for any bytes; the read is bounded by its size.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of_val(&info);
            while libc::read(self.signals.as_raw_fd(), (&raw mut info).cast(), size) == size as isize {
                if info.ssi_signo as i32 == libc::SIGTERM {
                    self.kill_asked = true;
                    self.kill_all();
                }
            }
        }
        while self.reap(libc::WNOHANG) {}
    }

    /// Returns false when no child has ended or none is left.
    fn reap(&mut self, flags: libc::c_int) -> bool {
        let mut status = 0;
        // SAFETY: the out-parameter is valid for the call.
        let pid = unsafe { libc::waitpid(-1, &mut status, flags) };
        if pid <= 0 {
            return false;
        }
        if pid == self.runtime {
            self.runtime_status = Some(status);
        } else {
            self.ended.push((pid, status));
        }
        // Only the end of PID 1 matters later, so limit the list.
        if self.ended.len() > 16 {
            let init = self.init;
            self.ended.retain(|(pid, _)| Some(*pid) == init);
        }
        true
    }

    fn wait_for_runtime(&mut self, deadline: Instant) {
        while self.runtime_status.is_none() && Instant::now() < deadline {
            poll([self.signals.as_raw_fd()], Some(Duration::from_millis(100)));
            self.handle_signals();
        }
        self.read_errors();
    }

    fn init_ended(&self) -> bool {
        self.ended.iter().any(|(pid, _)| Some(*pid) == self.init)
    }

    fn is_frozen(&self) -> bool {
        self.groups.is_frozen() || self.stopped.is()
    }

    fn freeze(&mut self) -> Result<(), String> {
        if self.groups.can_freeze() {
            self.groups.freeze()
        } else {
            self.stopped.stop()
        }
    }

    fn thaw(&mut self) {
        self.groups.thaw();
        self.stopped.go_on();
    }

    fn kill_all(&self) {
        kill_all();
        self.groups.thaw();
    }

    fn reap_all(&mut self) {
        while self.reap(0) {}
    }

    /// The end record. All processes are dead.
    fn end(&mut self, started: i64) -> Json {
        self.kill_all();
        self.reap_all();
        self.read_errors();
        let status = self
            .ended
            .iter()
            .find(|(pid, _)| Some(*pid) == self.init)
            .map(|(_, status)| *status);
        let number = |value: Option<i64>| value.map_or(Json::Null, Json::Number);
        let exit = status
            .filter(|s| libc::WIFEXITED(*s))
            .map(|s| i64::from(libc::WEXITSTATUS(s)));
        let signal = status
            .filter(|s| libc::WIFSIGNALED(*s))
            .map(|s| i64::from(libc::WTERMSIG(s)));
        Json::Map(vec![
            ("version".into(), Json::Number(crate::shim::task::RECORD_VERSION)),
            ("exit".into(), number(exit)),
            ("signal".into(), number(signal)),
            ("killed".into(), Json::Bool(self.kill_asked)),
            ("oomKills".into(), number(self.groups.oom_kills())),
            ("startedAt".into(), Json::Number(started)),
            ("endedAt".into(), Json::Number(now_ms())),
            (
                "errors".into(),
                Json::Text(String::from_utf8_lossy(&self.error_text).into_owned()),
            ),
        ])
    }
}

/// Removes the folder of both sockets, last. The folder is the claim on this sandbox: once it is gone, the
/// sandbox may be started again. Symlinks in it are not followed.
fn remove_run_folder(task: &Task) {
    if let Some(folder) = std::path::Path::new(&task.witness).parent() {
        let _ = fs::remove_dir_all(folder);
    }
}

fn describe(status: i32) -> String {
    if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else {
        format!("status {}", libc::WEXITSTATUS(status))
    }
}
