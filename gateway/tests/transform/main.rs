//! Brokered secrets, with real TLS on both sides, over loopback.

mod aborts;
mod bodies;
mod certificates;
mod clients;
mod fuzz;
mod git;
mod http1;
mod http2;
mod policy;
mod refused;
mod rig;
mod rotation;
mod smuggling;
mod websocket;
