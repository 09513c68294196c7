//! One sandbox from the prepared shim to its end: `prepared` → `start` → `supervise`.

pub mod prepared;
mod sigstop;
mod start;
pub mod supervise;
