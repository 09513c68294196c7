//! Errors of operations. `protocol/runner.md` lists the codes.

use super::cbor::Fields;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpError {
    pub code: &'static str,
    pub message: String,
    pub errno: Option<i32>,
    /// The step of a process start that failed: `exec`, `cwd`, `user`, `limits` …
    pub step: Option<&'static str>,
}

pub type OpResult<T> = Result<T, OpError>;

impl OpError {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        OpError {
            code,
            message: message.into(),
            errno: None,
            step: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        OpError::new("invalid", message)
    }

    /// `what` names the step or operation. It must not contain data of the caller.
    pub fn errno(errno: i32, what: &str) -> Self {
        let text = std::io::Error::from_raw_os_error(errno).to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_owned();
        OpError {
            code: code_of(errno),
            message: format!("{what}: {text}"),
            errno: Some(errno),
            step: None,
        }
    }

    pub fn io(error: &std::io::Error, what: &str) -> Self {
        match error.raw_os_error() {
            Some(errno) => OpError::errno(errno, what),
            None => OpError::new("io", format!("{what}: {error}")),
        }
    }

    pub fn body(&self) -> Vec<u8> {
        let mut message = self.message.clone();
        let mut cut = message.len().min(4096);
        while !message.is_char_boundary(cut) {
            cut -= 1;
        }
        message.truncate(cut);
        Fields::new()
            .text("code", self.code)
            .text("message", &message)
            .maybe_int("errno", self.errno)
            .maybe_text("step", self.step)
            .encode()
    }
}

fn code_of(errno: i32) -> &'static str {
    match errno {
        libc::ENOENT | libc::ESRCH => "not_found",
        libc::EEXIST => "exists",
        libc::EACCES | libc::EPERM | libc::EROFS => "denied",
        libc::ENOTDIR => "not_directory",
        libc::EISDIR => "is_directory",
        libc::ENOTEMPTY => "not_empty",
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => "no_space",
        libc::EINVAL | libc::ENAMETOOLONG | libc::ELOOP | libc::E2BIG | libc::ENOEXEC => "invalid",
        libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM => "limit",
        libc::EBUSY | libc::ETXTBSY => "busy",
        libc::ECONNREFUSED => "refused",
        _ => "io",
    }
}
