//! TCP ports inside the sandbox.

mod dial;
pub mod listening;
