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
pub mod fence;
mod files;
mod ports;
mod process;
pub mod serve;
mod shell;
pub mod shim;
mod sys;
pub mod tree;
pub mod unpack;
pub mod wire;
