//! Requests as they arrive.

use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::HashMap;

use crate::sandbox::Secrets;
use crate::transform::{CaMaterial, Invalid};

#[derive(Deserialize)]
pub struct Request {
    #[serde(default)]
    pub id: Value,
    #[serde(flatten)]
    pub operation: Map<String, Value>,
}

pub enum Operation {
    Hello(Hello),
    Ca,
    Add(Add),
    Update(Update),
    Remove(Named),
    List,
    Events(Events),
    Host(Host),
}

#[derive(Deserialize)]
pub struct Hello {
    pub version: u32,
}

#[derive(Deserialize)]
pub struct Add {
    pub sandbox: String,
    pub socket: String,
    pub policy: Value,
    pub ca: Option<Ca>,
    pub secrets: Option<Secrets>,
    #[serde(default)]
    pub own: Vec<String>,
}

#[derive(Deserialize)]
pub struct Ca {
    cert: String,
    key: SecretString,
}

impl From<Ca> for CaMaterial {
    fn from(Ca { cert, key }: Ca) -> Self {
        Self { cert, key }
    }
}

#[derive(Deserialize)]
pub struct Update {
    pub sandbox: String,
    pub policy: Value,
    pub secrets: Option<Secrets>,
}

#[derive(Deserialize)]
pub struct Named {
    pub sandbox: String,
}

#[derive(Deserialize)]
pub struct Events {
    pub sandbox: Option<String>,
    #[serde(default)]
    pub after: u64,
    #[serde(default)]
    pub follow: bool,
}

#[derive(Deserialize)]
pub struct Host {
    pub resolvers: Vec<String>,
    pub own: Vec<String>,
    #[serde(default)]
    pub hosts: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
pub struct Failure {
    pub code: &'static str,
    pub message: String,
}

impl Failure {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self {
            code: "invalid_argument",
            message: message.into(),
        }
    }

    pub fn not_found(sandbox: &str) -> Self {
        Self {
            code: "not_found",
            message: format!("no sandbox {sandbox:?}"),
        }
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            code: "unavailable",
            message: message.into(),
        }
    }
}

impl From<Invalid> for Failure {
    fn from(Invalid(message): Invalid) -> Self {
        Self::invalid(message)
    }
}

impl Operation {
    pub fn parse(mut fields: Map<String, Value>) -> Result<Self, Failure> {
        let op = fields.remove("op");
        let fields = Value::Object(fields);
        match op.as_ref().and_then(Value::as_str) {
            Some("hello") => read(fields).map(Self::Hello),
            Some("ca") => Ok(Self::Ca),
            Some("add") => read(fields).map(Self::Add),
            Some("update") => read(fields).map(Self::Update),
            Some("remove") => read(fields).map(Self::Remove),
            Some("list") => Ok(Self::List),
            Some("events") => read(fields).map(Self::Events),
            Some("host") => read(fields).map(Self::Host),
            _ => Err(Failure::invalid("unknown op")),
        }
    }
}

/// Errors of serde repeat a value of the wrong type, which could be a secret: they are shown without it.
fn read<T: DeserializeOwned>(fields: Value) -> Result<T, Failure> {
    let has_secrets = ["ca", "secrets"]
        .iter()
        .any(|name| fields.get(name).is_some_and(|value| !value.is_null()));
    serde_json::from_value(fields).map_err(|error| match has_secrets {
        true => Failure::invalid("a field is missing or has the wrong type"),
        false => Failure::invalid(error.to_string()),
    })
}
