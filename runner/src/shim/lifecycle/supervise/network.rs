//! The sandbox's network: `open` through pasta, or with a policy through the gateway.

use super::{Supervisor, describe};
use crate::egress::{Handover, Unbound, pair};
use crate::shim::failure::{Failure, at};
use crate::shim::open_network;
use crate::shim::poll::poll;
use crate::shim::task::Network;
use crate::shim::verify::Kind;
use std::os::fd::AsRawFd;
use std::time::Instant;

impl Supervisor<'_> {
    /// Connects the network that the task asks for.
    pub fn connect(&mut self, egress: Unbound, deadline: Instant) -> Result<(), Failure> {
        if let Some(network) = &self.task.network {
            self.connect_pasta(network, deadline)?;
        }
        if let Some(place) = &self.task.egress {
            let sockets = at(
                "network with a policy",
                match self.kind {
                    // The sandbox's own kernel would not see the sockets of its namespace.
                    Kind::Sentry => pair::connect(&egress),
                    _ => egress.configure(),
                },
            )?;
            self.handover = Some(at(&place.socket, Handover::open(sockets, place))?);
        }
        Ok(())
    }

    /// Starts pasta and waits until it goes to the background, which means that the interface exists. Then
    /// installs the filter.
    fn connect_pasta(&mut self, network: &Network, deadline: Instant) -> Result<(), Failure> {
        let log = self.errors.take().ok_or("the runtime closed its error stream")?;
        let (errors, errors_in) = at("network", crate::sys::pipe())?;
        let started = open_network::start(network, &self.groups, &errors_in);
        drop(errors_in);
        self.errors = Some(errors);
        let starting = started?;
        let mut status = None;
        while status.is_none() && Instant::now() < deadline && !self.kill_asked {
            let errors_fd = self.errors.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            let wait = deadline.saturating_duration_since(Instant::now());
            let [signalled, said] = poll([self.signals.as_raw_fd(), errors_fd], Some(wait));
            if said {
                self.read_errors();
            }
            if signalled {
                self.handle_signals();
            }
            status = self
                .ended
                .iter()
                .find(|(ended, _)| *ended == starting.pasta)
                .map(|(_, status)| *status);
        }
        match status {
            Some(0) => {
                // Drop what pasta printed on success.
                self.error_text.clear();
                self.errors = Some(log);
                self.fence = Some(starting.close(network)?);
                Ok(())
            }
            Some(status) => Err(format!("pasta could not connect the network ({})", describe(status)).into()),
            None => Err("pasta did not connect the network in time".into()),
        }
    }

    /// The host's addresses changed. If the filter cannot follow, the sandbox ends.
    pub fn follow_addresses(&mut self) {
        if let (Some(fence), Some(network)) = (&mut self.fence, &self.task.network)
            && let Err(failure) = fence.follow(network)
        {
            self.error_text.extend_from_slice(failure.message.as_bytes());
            self.kill_all();
        }
    }
}
