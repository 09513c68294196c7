//! What travels on the socket: frames (`frame`), and the bodies of control frames (`cbor`).
//! `protocol/runner.md` is the authority; `protocol/golden` holds both sides to it.

pub mod cbor;
pub mod error;
pub mod frame;
pub mod request;
