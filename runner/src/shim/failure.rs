//! Why a sandbox could not start: a message for people and an errno for programs.

use std::fmt::Display;
use std::io;

pub struct Failure {
    pub message: String,
    pub errno: Option<i32>,
}

impl Failure {
    /// Appends to the message.
    pub fn with(self, more: impl Display) -> Failure {
        Failure {
            message: format!("{}{more}", self.message),
            ..self
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { message, errno: None }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        message.to_owned().into()
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.message
    }
}

/// Adds what was being done to an error.
pub fn at<T>(what: impl Display, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure {
        message: format!("{what}: {error}"),
        errno: error.raw_os_error(),
    })
}
