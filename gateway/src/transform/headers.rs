//! Headers that belong to one connection, and headers that would keep responses from being scrubbed.

use http::header::{
    ACCEPT_ENCODING, ALT_SVC, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, IF_RANGE,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RANGE, SEC_WEBSOCKET_EXTENSIONS, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Version};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Removes what is for the next hop only, also the headers that `Connection` names. `TE: trailers` stays, for gRPC.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in named_by_connection(headers) {
        headers.remove(name);
    }
    let trailers = headers.get(TE).is_some_and(|value| lists(value, "trailers"));
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        HTTP2_SETTINGS,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// `Content-Length` and `Host` are never for one hop only; removing them would change what a request is.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let tokens = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok());
    tokens
        .flat_map(|value| value.split(','))
        .filter_map(|token| HeaderName::from_bytes(token.trim().as_bytes()).ok())
        .filter(|name| name != CONTENT_LENGTH && name != HOST && name != TE)
        .collect()
}

/// hyper answers `Expect` itself. The rest is because a secret must arrive as it is, and in one response:
/// compressed, or in pieces that the sandbox chooses, it cannot be found.
pub(super) fn prepare_request(headers: &mut HeaderMap, scrubs: bool) {
    remove_hop_by_hop(headers);
    headers.remove(EXPECT);
    if scrubs {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.remove(RANGE);
        headers.remove(IF_RANGE);
        headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    }
}

/// Headers by which some frameworks take another method or path than the request line's.
const METHOD_OVERRIDES: [&str; 3] = ["x-http-method", "x-http-method-override", "x-method-override"];
const PATH_OVERRIDES: [&str; 2] = ["x-original-url", "x-rewrite-url"];

pub(super) fn overrides_method(headers: &HeaderMap) -> bool {
    has_one_of(headers, &METHOD_OVERRIDES)
}

pub(super) fn overrides_path(headers: &HeaderMap) -> bool {
    has_one_of(headers, &PATH_OVERRIDES)
}

/// Servers that follow CGI do not distinguish `_` from `-`.
fn has_one_of(headers: &HeaderMap, names: &[&str]) -> bool {
    let plain = |name: &HeaderName| name.as_str().replace('_', "-");
    headers.keys().any(|name| names.contains(&plain(name).as_str()))
}

/// Sets headers instead of those that the sandbox sent. Servers that follow CGI do not distinguish `_` from `-`.
pub(super) fn replace(headers: &mut HeaderMap, set: Vec<(HeaderName, HeaderValue)>) {
    let same = |name: &HeaderName| {
        set.iter()
            .any(|(own, _)| own.as_str() == name.as_str().replace('_', "-"))
    };
    let sent: Vec<HeaderName> = headers.keys().filter(|name| same(name)).cloned().collect();
    for name in sent {
        headers.remove(name);
    }
    headers.extend(set);
}

/// Whether the body is sent as it is. Otherwise it cannot be scrubbed.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    let plain = |name, allowed: [&str; 2]| {
        headers.get_all(name).iter().all(|value| {
            let text = value.to_str().unwrap_or("?");
            text.split(',').all(|part| {
                allowed
                    .iter()
                    .any(|allowed| part.trim().eq_ignore_ascii_case(allowed))
            })
        })
    };
    plain(CONTENT_ENCODING, ["identity", ""]) && plain(TRANSFER_ENCODING, ["chunked", "identity"])
}

/// The sandbox has no HTTP/3, so offers of it are removed.
pub(super) fn prepare_response(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    headers.remove(ALT_SVC);
}

/// Whether the server closes the connection after this response.
pub(super) fn closes(version: Version, headers: &HeaderMap) -> bool {
    let has = |word| headers.get_all(CONNECTION).iter().any(|value| lists(value, word));
    has("close") || (version == Version::HTTP_10 && !has("keep-alive"))
}

pub(super) enum Upgrade {
    None,
    WebSocket,
    Other,
}

pub(super) fn upgrade(headers: &HeaderMap) -> Upgrade {
    let mut values = headers.get_all(UPGRADE).iter();
    match (values.next(), values.next()) {
        (None, _) => Upgrade::None,
        (Some(value), None)
            if value.as_bytes().eq_ignore_ascii_case(b"websocket")
                && headers
                    .get_all(CONNECTION)
                    .iter()
                    .any(|value| lists(value, "upgrade")) =>
        {
            Upgrade::WebSocket
        }
        _ => Upgrade::Other,
    }
}

fn lists(value: &HeaderValue, word: &str) -> bool {
    value
        .to_str()
        .is_ok_and(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
}
