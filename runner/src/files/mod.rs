//! File operations, with the sandbox's view of paths and the user's permissions. Each operation runs on a
//! worker thread with the user's file system ids. File names are bytes throughout.

pub(crate) mod dir;
mod list;
mod manage;
mod metadata;
mod read;
mod remove;
pub mod tar;
mod tar_in;
mod tar_out;
mod watch;
pub mod worker;
mod write;

use crate::serve::connection::{Relay, Use};
use crate::serve::epoll_token::Token;
use crate::serve::incoming::Outcome;
use crate::serve::server::Server;
use crate::serve::source_sink::{Finish, Sink, Source};
use crate::sys::user::User;
use crate::wire::cbor::Fields;
use crate::wire::error::{OpError, OpResult};
use crate::wire::request::Request;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use worker::Worker;

type Prepare = fn(&Paths, &Request) -> OpResult<Work>;
pub type Work = Box<dyn FnOnce(&Worker) -> OpResult<Fields> + Send>;

pub struct Operation {
    takes_input: bool,
    bulk: bool,
    prepare: Prepare,
}

/// Requests are parsed on the event loop; the work runs on a thread.
pub fn find(op: &str) -> Option<Operation> {
    let (takes_input, prepare): (bool, Prepare) = match op {
        "fs.read" => (false, read::prepare),
        "fs.write" => (true, write::prepare),
        "fs.list" => (false, list::prepare),
        "fs.stat" => (false, manage::stat),
        "fs.mkdir" => (false, manage::mkdir),
        "fs.rename" => (false, manage::rename),
        "fs.chmod" => (false, manage::chmod),
        "fs.remove" => (false, remove::prepare),
        "fs.watch" => (false, watch::prepare),
        "fs.tar" => (false, tar_out::prepare),
        "fs.untar" => (true, tar_in::prepare),
        _ => return None,
    };
    let bulk = matches!(op, "fs.read" | "fs.tar");
    Some(Operation {
        takes_input,
        bulk,
        prepare,
    })
}

/// The directory that relative paths start from.
pub struct Paths(PathBuf);

impl Paths {
    pub fn get(&self, request: &Request, key: &str) -> OpResult<PathBuf> {
        let path = request.path(key)?;
        Ok(self.0.join(OsStr::from_bytes(path.as_bytes())))
    }
}

impl Server {
    pub fn op_file(
        &mut self,
        conn: u32,
        stream: u32,
        operation: Operation,
        request: &Request,
    ) -> OpResult<Outcome> {
        let user = match request.maybe_text("user")? {
            Some(spec) => Some(User::resolve(spec)?),
            None => self.config.user.clone(),
        };
        let base = request.maybe_cstring("cwd")?.or_else(|| self.config.cwd.clone());
        let base = base.map_or(PathBuf::from("/"), |cwd| {
            PathBuf::from(OsStr::from_bytes(cwd.as_bytes()))
        });
        let work = (operation.prepare)(&Paths(base), request)?;
        let started = worker::start(user, operation.takes_input, work)?;
        let failed = |error: std::io::Error| OpError::io(&error, "worker");
        let source = Source::new(started.output, 0).map_err(failed)?;
        self.epoll
            .add(source.fd.as_raw_fd(), Token::RelayIn { conn, stream })
            .map_err(failed)?;
        let sink = started
            .input
            .map(|fd| Sink::new(fd, Finish::Close))
            .transpose()
            .map_err(failed)?;
        if let Some(fd) = sink.as_ref().and_then(Sink::raw) {
            self.epoll
                .add(fd, Token::RelayOut { conn, stream })
                .map_err(failed)?;
        }
        let relay = Relay {
            source: Some(source),
            sink,
            job: Some(started.handle),
            bulk: operation.bulk,
            ..Relay::default()
        };
        Ok(Outcome::Stream(Use::Relay(relay), None))
    }
}

/// One record of `list` or `watch`: a length and a body.
fn emit_record(worker: &Worker, fields: Fields) -> OpResult<()> {
    let body = fields.encode();
    let mut record = Vec::with_capacity(4 + body.len());
    record.extend_from_slice(&(body.len() as u32).to_be_bytes());
    record.extend_from_slice(&body);
    worker.emit(&record)
}

fn c_path(path: &Path) -> OpResult<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| OpError::invalid("the path contains a NUL byte"))
}

/// The last component and its directory.
fn split(path: &Path) -> OpResult<(PathBuf, CString)> {
    let name = path
        .file_name()
        .ok_or_else(|| OpError::invalid("the path has no file name"))?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok((parent.to_owned(), c_path(Path::new(name))?))
}

/// Error messages name the step, never the path: it may contain a secret, and the caller knows it.
fn io_error(what: &'static str) -> impl Fn(std::io::Error) -> OpError {
    move |error| OpError::io(&error, what)
}

fn bytes_of(name: &CStr) -> &[u8] {
    name.to_bytes()
}
