//! The runner: PID 1 of a sandbox. `serve` answers clients on a Unix socket (`server` is the heart), `bridge` carries that socket
//! over standard input and output. The binary (`main.rs`) only chooses.
//!
//! ```text
//! wire/     frames and bodies             sys/     the kernel, wrapped
//! server    the loop                      serve    what a connection says        pump    what it is sent
//! task      a process or a command        process  start, attach, signal …       ring    numbered output
//! unpack/   image layers, outside
//! typed     Control-C in a gVisor
//! shell*    stateful shells               files/   on workers (job)              dial, ports, stats
//! shim/     a sandbox from outside        tree/    whole disks, on the host
//! fence/    what a network may reach
//! door      where connections come from shortcut files, page by page
//! mark      whose process it is           hunt     all of a command, wherever it went
//! reaper    signals, and ends of children
//! ```

pub mod bridge;
mod conn;
mod dial;
mod door;
pub mod fence;
mod files;
mod flow;
mod hunt;
mod job;
mod launch;
mod limits;
mod mark;
mod moment;
mod ports;
mod process;
mod pump;
mod reaper;
mod ring;
mod serve;
mod server;
mod shell;
mod shell_interrupt;
mod shell_login;
mod shell_run;
mod shell_script;
pub mod shim;
mod shortcut;
pub mod start;
mod starts;
mod stats;
mod sys;
mod task;
mod timers;
mod token;
pub mod tree;
mod typed;
pub mod unpack;
pub mod wire;
