//! TLS connections to hosts with a transform.

use std::sync::Arc;

use super::io::Io;
use super::record::Record;
use crate::events::Draft;
use crate::policy::Reason;
use crate::sandbox::{Brokered, Sandbox};
use crate::transform::{self, Failure, RequestEvent, Verdict};

/// `upstream` is connected to the checked address. The client's ClientHello is still in `client`.
pub async fn carry(
    sandbox: &Arc<Sandbox>,
    brokered: &Brokered,
    target: (String, u16),
    client: Io,
    upstream: Io,
    record: &mut Record,
) {
    let (recorder, draft) = (sandbox.clone(), record.request());
    let on_request = move |request| recorder.record(describe(&draft, request));
    let served = transform::serve(client, target, upstream, brokered.broker.clone(), on_request).await;
    if let Err(Failure { totals, reason, .. }) = served {
        if sandbox.traffic.is_exhausted() {
            record.cut(Reason::LimitBytes);
        } else if totals.requests == 0 {
            record.fail(reason);
        }
    }
}

fn describe(connection: &Draft, request: RequestEvent) -> Draft {
    Draft {
        verdict: match request.verdict {
            Verdict::Allowed => connection.verdict,
            Verdict::Denied => "denied",
            Verdict::Error => "error",
        },
        reason: request.reason,
        method: Some(request.method),
        path: Some(request.path),
        status: Some(request.status),
        duration_ms: request.duration.as_millis() as u64,
        ..connection.clone()
    }
}
