//! `runner serve`: the event loop, its connections and the dispatch of requests.

mod acceptor;
pub mod connection;
pub mod epoll_token;
pub mod incoming;
mod outgoing;
pub mod server;
pub mod source_sink;
mod splice;
pub mod startup;
mod stats;
pub mod timers;
