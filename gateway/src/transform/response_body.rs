//! The body of a response on its way to the sandbox: the upstream's, scrubbed, or a short text of the gateway.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::headers;
use super::scrub::{PAUSE, Scrubber, Stream};

pub(super) enum ResponseBody {
    Text(Option<Bytes>),
    Plain(Incoming),
    Scrubbed(Box<Scrubbed>),
}

pub(super) struct Scrubbed {
    inner: Incoming,
    scrubber: Arc<Scrubber>,
    stream: Stream,
    /// Runs while the upstream pauses and something is held back.
    pause: Option<Pin<Box<Sleep>>>,
    /// Trailers wait for the end of the body.
    trailers: Option<HeaderMap>,
    ended: bool,
}

impl ResponseBody {
    pub fn text(text: String) -> ResponseBody {
        ResponseBody::Text(Some(text.into()))
    }

    pub fn upstream(inner: Incoming, scrubber: Option<&Arc<Scrubber>>) -> ResponseBody {
        match scrubber {
            None => ResponseBody::Plain(inner),
            Some(scrubber) => ResponseBody::Scrubbed(Box::new(Scrubbed {
                inner,
                stream: Stream::new(Arc::clone(scrubber)),
                scrubber: Arc::clone(scrubber),
                pause: None,
                trailers: None,
                ended: false,
            })),
        }
    }
}

type Polled = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        match &mut *self {
            ResponseBody::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            ResponseBody::Plain(inner) => Pin::new(inner).poll_frame(cx),
            ResponseBody::Scrubbed(body) => body.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Text(text) => text.is_none(),
            ResponseBody::Plain(inner) => inner.is_end_stream(),
            ResponseBody::Scrubbed(body) => {
                body.trailers.is_none()
                    && body.stream.held() == 0
                    && (body.ended || body.inner.is_end_stream())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            ResponseBody::Plain(inner) => inner.size_hint(),
            ResponseBody::Scrubbed(body) => body.size_hint(),
        }
    }
}

impl Scrubbed {
    fn poll(&mut self, cx: &mut Context<'_>) -> Polled {
        while !self.ended {
            let Poll::Ready(polled) = Pin::new(&mut self.inner).poll_frame(cx) else {
                return self.poll_pause(cx);
            };
            self.pause = None;
            let data = match polled {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.stream.push(data),
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok().map(|trailers| self.clean(trailers));
                        self.end()
                    }
                },
                None => self.end(),
            };
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Polled {
        if !self.stream.releasable() {
            return Poll::Pending;
        }
        ready!(
            self.pause
                .get_or_insert_with(|| Box::pin(sleep(PAUSE)))
                .as_mut()
                .poll(cx)
        );
        self.pause = None;
        Poll::Ready(Some(Ok(Frame::data(self.stream.release()))))
    }

    fn end(&mut self) -> Bytes {
        self.ended = true;
        self.stream.finish()
    }

    fn clean(&self, mut trailers: HeaderMap) -> HeaderMap {
        headers::remove_hop_by_hop(&mut trailers);
        self.scrubber.headers(&mut trailers);
        trailers
    }

    /// Scrubbing keeps the length.
    fn size_hint(&self) -> SizeHint {
        let held = self.stream.held() as u64;
        let inner = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(held));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(held));
        }
        hint
    }
}
