//! A sandbox's life as its shim sees it: birth, a long wait, the end. One thread, one `poll`.

mod clients;

use super::prepared::{Runtime, Waiting, kill_everyone};
use super::sigstop::Stopped;
use super::start;
use crate::shim::answer;
use crate::shim::cgroup::Groups;
use crate::shim::failure::{Failure, at};
use crate::shim::gvisor::{self, Porter};
use crate::shim::host_proc::HostProc;
use crate::shim::json::Json;
use crate::shim::open_network::{self, Fence};
use crate::shim::poll::{listen, now_ms, poll, poll_all, write_whole};
use crate::shim::task::{Network, Task};
use crate::shim::verify::{Kind, verify};
use crate::sys::read;
use clients::Watcher;
use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Of what the runtime and the runner write as errors, the beginning is kept: it names the cause. After that they write into nothing.
const MAX_ERRORS: usize = 4096;
const MAX_WATCHERS: usize = 64;

struct Life<'a> {
    task: &'a Task,
    host: HostProc,
    me: u32,
    start_time: i64,
    kind: Kind,
    /// Where the runner cannot listen itself.
    porter: Option<Porter>,
    groups: Groups,
    /// Where it has a network.
    fence: Option<Fence>,
    /// Where the groups cannot freeze.
    stopped: Stopped,
    signals: OwnedFd,
    errors: Option<OwnedFd>,
    error_text: Vec<u8>,
    /// PID 1 of the sandbox, by our numbers.
    init: Option<libc::pid_t>,
    runtime: libc::pid_t,
    runtime_status: Option<i32>,
    /// How children other than the runtime ended; the runtime leaves some helpers behind that we inherit.
    ended: Vec<(libc::pid_t, i32)>,
    kill_asked: bool,
    /// Who we are, in a line. It also says that we live: the kernel would accept a connection for a process that is dying.
    greeting: String,
}

/// Returns when the sandbox has ended and nothing of it is left.
pub fn live(task: &Task, mut waiting: Waiting) -> Result<(), Failure> {
    let started = now_ms();
    let witness = match listen(&task.witness) {
        Ok(witness) => witness,
        Err(error) => {
            remove_run_folder(task);
            return Err(waiting.failed(format!("{}: {error}", task.witness)).into());
        }
    };
    let begun = start::start(task, &mut waiting);
    let Waiting {
        host,
        me,
        start_time,
        signals,
        groups,
        runtime,
        users,
        account,
    } = waiting;
    drop(users);
    let Runtime {
        pid,
        listener,
        inside,
        ready,
        errors,
    } = runtime;
    // Where the runner has got the listener it is no longer ours.
    let porter = inside.map(|inside| Porter { listener, inside });
    let mut life = Life {
        task,
        host,
        me,
        start_time,
        kind: match porter {
            Some(_) => Kind::Sentry,
            None if account => Kind::Account,
            None => Kind::Root,
        },
        porter,
        groups,
        fence: None,
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
    if let Err(mut failure) = begun.and_then(|users| life.be_born(ready, users)) {
        life.kill_all();
        life.reap_all();
        life.hear();
        let left = life.groups.remove();
        remove_run_folder(task);
        let said = String::from_utf8_lossy(&life.error_text).trim().to_owned();
        if !said.is_empty() {
            failure = failure.with(format_args!(": {said}"));
        }
        if let Err(also) = left {
            failure = failure.with(format_args!("; and then {also}"));
        }
        return Err(failure);
    }
    let mut watchers = life.wait(&witness);
    let end = life.end(started);
    let line = end.line();
    let written = write_whole(&task.end, &line);
    let removed = life.groups.remove();
    let _ = fs::remove_file(&task.state);
    remove_run_folder(task);
    drop(witness);
    for watcher in &mut watchers {
        let _ = watcher.stream.write_all(line.as_bytes());
    }
    at(&task.end, written)?;
    Ok(removed?)
}

impl Life<'_> {
    /// Until the runner answers, is verified and connected. Any failure is the end: there is no half of a sandbox.
    fn be_born(&mut self, ready: OwnedFd, users: OwnedFd) -> Result<(), Failure> {
        let deadline = Instant::now() + Duration::from_millis(self.task.ready_timeout_ms.max(0) as u64);
        // Before anything of the sandbox runs: there is no moment in which it has a network that is not closed yet.
        if let Some(network) = &self.task.network {
            self.connect(network, deadline)?;
        }
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
            // It answers before what it runs does; what it starts is ordinary again. Where that is not allowed it is only slower.
            // SAFETY: takes numbers, of our own child.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, init as libc::id_t, -20) };
        }
        verify(self.task, self.kind, &self.host, host_pid)?;
        self.introduce(host_pid)
    }

    /// The runtime waits for this, unless it has only just been started.
    fn hand_over(&mut self, deadline: Instant) -> Result<(), String> {
        while !start::hand_over(&self.task.config).map_err(|error| format!("config.json: {error}"))? {
            // One that ended without reading is `until_ready`'s to report.
            if self.runtime_status.is_some() || self.kill_asked || Instant::now() > deadline {
                break;
            }
            poll([self.signals.as_raw_fd()], Some(Duration::from_millis(1)));
            self.hear_signals();
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
                _ if self.kill_asked => return Err("killed while it started".to_owned()),
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
                self.hear();
            }
            if at_ready {
                match read(ready.as_raw_fd(), &mut [0; 1]) {
                    Ok(Some(1)) => answered = true,
                    // Closed by everyone who had it, the runtime and the runner: the runtime's status, if it failed, says more than we can.
                    _ => {
                        self.wait_for_runtime(deadline);
                        if self.runtime_status.is_none_or(|status| status == 0) {
                            return Err("the runner ended before it answered".to_owned());
                        }
                    }
                }
            }
            if signalled {
                self.hear_signals();
            }
        }
    }

    /// Starts pasta, waits until it has gone to the background, which it does when the interface is there, and closes what is to be closed.
    fn connect(&mut self, network: &Network, deadline: Instant) -> Result<(), Failure> {
        let log = self.errors.take().ok_or("the runtime closed its error stream")?;
        let (errors, errors_in) = at("network", crate::sys::pipe())?;
        let started = open_network::start(network, &self.groups, &errors_in);
        drop(errors_in);
        self.errors = Some(errors);
        let starting = started?;
        let mut status = None;
        while status.is_none() && Instant::now() < deadline && !self.kill_asked {
            let errors_fd = self.errors.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let wait = deadline.saturating_duration_since(Instant::now());
            let [signalled, said] = poll([self.signals.as_raw_fd(), errors_fd], Some(wait));
            if said {
                self.hear();
            }
            if signalled {
                self.hear_signals();
            }
            status = self
                .ended
                .iter()
                .find(|(ended, _)| *ended == starting.pasta)
                .map(|(_, status)| *status);
        }
        match status {
            Some(0) => {
                // What pasta said while it succeeded is of no interest later.
                self.error_text.clear();
                self.errors = Some(log);
                self.fence = Some(starting.close(network)?);
                Ok(())
            }
            Some(status) => Err(format!("the network could not be connected ({})", describe(status)).into()),
            None => Err("the network was not connected in time".into()),
        }
    }

    /// The host's addresses have changed. A sandbox whose network cannot be closed to a new one ends.
    fn follow_addresses(&mut self) {
        if let (Some(fence), Some(network)) = (&mut self.fence, &self.task.network)
            && let Err(failure) = fence.follow(network)
        {
            self.error_text.extend_from_slice(failure.message.as_bytes());
            self.kill_all();
        }
    }

    /// Tells who we are: to those who come later in a file, to whoever started us on standard output.
    fn introduce(&mut self, host_pid: u32) -> Result<(), Failure> {
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

    /// The long wait. Returns, with those who want to know, when PID 1 has ended.
    fn wait(&mut self, witness: &UnixListener) -> Vec<Watcher> {
        let mut watchers: Vec<Watcher> = Vec::new();
        // Frozen by somebody else, who will thaw it: not ours to do when the last of those who hold it lets go.
        let mut paused = false;
        // Frozen by us, also for one who was gone before he could be told.
        let mut held = false;
        while !self.init_ended() {
            let errors_fd = self.errors.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let porter_fd = self.porter.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let fence_fd = self.fence.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let mut fds = vec![
                self.signals.as_raw_fd(),
                errors_fd,
                witness.as_raw_fd(),
                porter_fd,
                fence_fd,
            ];
            fds.extend(watchers.iter().map(|watcher| watcher.stream.as_raw_fd()));
            let ready = poll_all(&fds, None);
            if ready[1] {
                self.hear();
            }
            if ready[3] {
                self.porter.iter().for_each(Porter::let_in);
            }
            if ready[4] {
                self.follow_addresses();
            }
            let mut index = 5;
            watchers.retain_mut(|watcher| {
                index += 1;
                !ready[index - 1] || self.hear_watcher(watcher, &mut held, &mut paused)
            });
            if held && !watchers.iter().any(|watcher| watcher.holds) {
                held = false;
                if !paused {
                    self.thaw();
                }
            }
            if ready[2]
                && let Ok((mut stream, _)) = witness.accept()
                && watchers.len() < MAX_WATCHERS
                && stream.set_nonblocking(true).is_ok()
                && stream.write_all(self.greeting.as_bytes()).is_ok()
            {
                watchers.push(Watcher { stream, holds: false });
            }
            if ready[0] {
                self.hear_signals();
            }
        }
        watchers
    }

    fn hear(&mut self) {
        let mut buffer = [0; 1024];
        let Some(errors) = &self.errors else { return };
        match read(errors.as_raw_fd(), &mut buffer) {
            Ok(None) => {}
            Ok(Some(count)) if count > 0 && self.error_text.len() < MAX_ERRORS => {
                self.error_text.extend_from_slice(&buffer[..count]);
            }
            // The end, or enough: a sandbox that writes on and on does so into a closed pipe, not into our time.
            _ => self.errors = None,
        }
    }

    fn hear_signals(&mut self) {
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

    /// False when no child has ended (or none is left).
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
        // Only PID 1's end matters later; adopted strangers must not pile up.
        if self.ended.len() > 16 {
            let init = self.init;
            self.ended.retain(|(pid, _)| Some(*pid) == init);
        }
        true
    }

    fn wait_for_runtime(&mut self, deadline: Instant) {
        while self.runtime_status.is_none() && Instant::now() < deadline {
            poll([self.signals.as_raw_fd()], Some(Duration::from_millis(100)));
            self.hear_signals();
        }
        self.hear();
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
        kill_everyone();
        self.groups.thaw();
    }

    fn reap_all(&mut self) {
        while self.reap(0) {}
    }

    /// What is true about the end, after everyone is dead.
    fn end(&mut self, started: i64) -> Json {
        self.kill_all();
        self.reap_all();
        self.hear();
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

/// The folder of our socket and the runner's. It is the claim on this sandbox: once it is gone, the next life may begin, so it is ours to
/// take away, last, and nobody else's while we live. What the sandbox's root left in it is not followed anywhere.
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
