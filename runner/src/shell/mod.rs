//! Stateful shells.

pub mod commands;
mod interrupt;
pub mod lifecycle;
mod login;
mod script;
