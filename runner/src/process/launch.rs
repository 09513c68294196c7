//! How a request wants a program to run: environment, working directory, user, limits, terminal size.
//! Processes and shells share this parser. An unknown limit is an error, never ignored.

use crate::process::operations::size;
use crate::serve::server::Config;
use crate::sys::pty::Size;
use crate::sys::spawn::Command;
use crate::sys::user::User;
use crate::wire::cbor::Value;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::{Request, cstring};
use std::ffi::CString;

#[derive(Clone)]
pub struct Launch {
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Option<CString>,
    pub user: Option<User>,
    pub limits: Vec<(u32, u64)>,
    pub size: Option<Size>,
}

impl Launch {
    pub fn parse(request: &Request, config: &Config) -> OpResult<Launch> {
        let user = match request.maybe_text("user")? {
            Some(spec) => Some(User::resolve(spec)?),
            None => config.user.clone(),
        };
        Ok(Launch {
            env: environment(request, config, user.as_ref())?,
            cwd: request.maybe_cstring("cwd")?.or_else(|| config.cwd.clone()),
            user,
            limits: limits(request)?,
            size: size(request)?,
        })
    }

    pub fn command(&self, argv: Vec<CString>, fds: Vec<(i32, i32)>, terminal: Option<i32>) -> Command {
        let entry = |(name, value): &(Vec<u8>, Vec<u8>)| {
            CString::new([name, &b"="[..], value].concat()).expect("both parts were C strings")
        };
        Command {
            program: None,
            argv,
            env: self.env.iter().map(entry).collect(),
            cwd: self.cwd.clone(),
            user: self.user.clone(),
            mark: None,
            limits: self.limits.clone(),
            fds,
            terminal,
        }
    }

    /// Sets a variable unless the runner's environment or the request sets it.
    pub fn default_env(&mut self, name: &str, value: &str) {
        if !self.env.iter().any(|(known, _)| known == name.as_bytes()) {
            self.env.push((name.into(), value.into()));
        }
    }
}

/// The runner's environment, then variables of the user, then those of the request. `null` removes a
/// variable.
fn environment(request: &Request, config: &Config, user: Option<&User>) -> OpResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut env = if request.bool("clearEnv")? {
        Vec::new()
    } else {
        config.env.clone()
    };
    let mut set = |name: &[u8], value: Option<Vec<u8>>| {
        env.retain(|(known, _)| known != name);
        if let Some(value) = value {
            env.push((name.to_vec(), value));
        }
    };
    if let Some(user) = user {
        set(b"HOME", Some(user.home.clone().unwrap_or_else(|| b"/".to_vec())));
        if let Some(name) = &user.name {
            set(b"USER", Some(name.clone().into_bytes()));
            set(b"LOGNAME", Some(name.clone().into_bytes()));
        }
        if let Some(shell) = &user.shell {
            set(b"SHELL", Some(shell.clone()));
        }
    }
    for (name, value) in request.map("env")? {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(OpError::invalid(
                "env: a name must not be empty or contain '=' or NUL",
            ));
        }
        match value {
            Value::Null => set(name.as_bytes(), None),
            value => set(name.as_bytes(), Some(cstring("env", value)?.into_bytes())),
        }
    }
    Ok(env)
}

fn limits(request: &Request) -> OpResult<Vec<(u32, u64)>> {
    let mut limits = Vec::new();
    for (name, value) in request.map("limits")? {
        match (crate::process::limits::find(name), value) {
            (Some(resource), Value::Int(value)) if *value >= 0 => limits.push((resource, *value as u64)),
            (Some(_), _) => return Err(OpError::invalid(format!("limits.{name}: must be an integer"))),
            (None, _) => return Err(OpError::invalid(format!("limits.{name}: unknown limit"))),
        }
    }
    Ok(limits)
}
