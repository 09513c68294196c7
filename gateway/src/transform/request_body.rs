//! The body of a request on its way to the upstream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::headers;

pub(super) struct RequestBody {
    inner: Incoming,
    /// Headers that the gateway set. Some servers merge trailers into headers.
    reserved: Vec<HeaderName>,
}

impl RequestBody {
    pub fn new(inner: Incoming, reserved: Vec<HeaderName>) -> RequestBody {
        RequestBody { inner, reserved }
    }

    fn clean(&self, trailers: &mut HeaderMap) {
        headers::remove_hop_by_hop(trailers);
        for name in self
            .reserved
            .iter()
            .chain(&[HOST, CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING])
        {
            trailers.remove(name);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        polled.map_ok(|mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                self.clean(trailers);
            }
            frame
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
