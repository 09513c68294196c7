//! Answers of the gateway itself: plain text, short.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::Verdict;
use super::response_body::ResponseBody;

pub(super) struct Refusal {
    pub status: StatusCode,
    pub verdict: Verdict,
    pub reason: &'static str,
    pub text: String,
}

impl Refusal {
    pub fn denied(status: StatusCode, reason: &'static str, text: impl Into<String>) -> Refusal {
        Refusal {
            status,
            verdict: Verdict::Denied,
            reason,
            text: text.into(),
        }
    }

    pub fn bad_gateway(reason: &'static str, text: impl Into<String>) -> Refusal {
        Refusal {
            status: StatusCode::BAD_GATEWAY,
            verdict: Verdict::Error,
            reason,
            text: text.into(),
        }
    }

    pub fn response(&self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::text(format!("sandkasten: {}\n", self.text)));
        *response.status_mut() = self.status;
        response.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        response
    }
}
