use gateway::process::{Options, User, serve};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: gateway serve --folder FOLDER [--user UID:GID] [--idle SECONDS] | gateway version";

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("version") {
        println!("{}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway in {}: {error}", options.folder.display());
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    if arguments.next()? != "serve" {
        return None;
    }
    let (mut folder, mut user, mut idle) = (None, None, 60);
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--folder" => folder = Some(PathBuf::from(value)),
            "--user" => user = Some(User::parse(&value)?),
            "--idle" => idle = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(Options {
        folder: folder?,
        user,
        idle: Duration::from_secs(idle),
    })
}
