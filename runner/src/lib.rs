//! The runner: PID 1 of a sandbox, and host-side helpers for sandboxes. README.md has the module map.

pub mod bridge;
pub mod egress;
pub mod fence;
mod files;
mod netlink;
mod ports;
mod process;
pub mod serve;
mod shell;
pub mod shim;
mod sys;
pub mod tree;
pub mod unpack;
pub mod wire;
