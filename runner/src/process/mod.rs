//! Processes: start them, keep their output, signal everything they started, reap them.

pub mod launch;
pub mod limits;
pub mod marked_processes;
pub mod marks;
pub mod operations;
mod output_ring;
pub mod pending_start;
pub mod reaper;
pub mod signals;
pub mod start_time;
pub mod task;
pub mod terminal_signals;
