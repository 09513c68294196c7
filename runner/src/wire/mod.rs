//! The protocol: frames (`frame`) and bodies of control frames (`cbor`). `protocol/runner.md` specifies it;
//! `protocol/golden` tests both sides.

pub mod cbor;
pub mod error;
pub mod frame;
pub mod request;
