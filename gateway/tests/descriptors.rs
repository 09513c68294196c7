//! What the gateway takes for this machine's own without a free descriptor. Alone in its process: the limit holds for
//! all of it.

use gateway::host::{Host, has_route};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::net::IpAddr;
use std::time::Duration;

#[test]
fn fails_closed_without_free_descriptors() {
    let [public, own]: [IpAddr; 2] =
        ["203.0.113.9", "127.0.0.1"].map(|text| text.parse().expect("an address"));
    let host = Host::default();
    let without_descriptors = |work: &dyn Fn()| {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
        setrlimit(Resource::RLIMIT_NOFILE, 0, hard).expect("no descriptors");
        work();
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("the limit as it was");
    };

    // It has never read the interfaces, so any address may be its own.
    without_descriptors(&|| {
        assert!(host.owns(public));
        assert!(has_route(public), "a name keeps its addresses");
    });
    assert!(host.owns(own));
    assert!(!host.owns(public));

    // The addresses that it has read are outdated, and count until it can read them again.
    std::thread::sleep(Duration::from_millis(2_100));
    without_descriptors(&|| {
        assert!(host.owns(own));
        assert!(!host.owns(public));
    });
}
