//! The command line: selects a mode of the runner.

use runner::serve::startup::{Options, serve};
use std::process::ExitCode;

const USAGE: &str = "usage: runner serve  [--socket PATH | --listen-fd N | --handed-fd N] [--ready-fd N] [--user USER[:GROUP]] [--cwd FOLDER] [--umask MASK] [--limit NAME=VALUE]…
       runner bridge [--socket PATH]
       runner shim
       runner launcher [--once]
       runner within --uids MAP --gids MAP -- program …
       runner fence PID
       runner egress PID SOCKET [UID:GID]
       runner tree copy|squash|remove|measure|sync|spread|serve …
       runner unpack FOLDER [--plain] [--no-sync] [--max-entries N] [--max-bytes N]
       runner version

inside a sandbox:
serve     listens on PATH (or SANDKASTEN_RUNNER_SOCKET), or uses a passed socket, and serves clients
bridge    connects the socket to standard input and output

on the host:
shim      starts and supervises one sandbox; reads its setup and task from standard input
launcher  starts shims for an engine; --once: keeps none ready after the first
within    runs a program in a user namespace in which the account is root
fence     restricts the network of a container to the rules on standard input
egress    hands the network of a container to a gateway at SOCKET, until the container ends
tree      copies, merges, measures, removes and flushes disks of sandboxes
unpack    extracts the image layer (a tar archive) from standard input into the empty FOLDER; --plain: ordinary files, no layer";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let mode = arguments.next().map(|mode| mode.to_string_lossy().into_owned());
    let result = match mode.as_deref() {
        Some("serve") => Options::parse(arguments).and_then(|options| serve(&options)),
        Some("bridge") => Options::parse(arguments).and_then(|options| {
            let socket = options.socket()?;
            if options
                != (Options {
                    socket: options.socket.clone(),
                    ..Options::default()
                })
            {
                return Err("bridge takes --socket only".to_owned());
            }
            runner::bridge::run(&socket).map_err(|error| format!("{}: {error}", socket.display()))
        }),
        Some("shim") => runner::shim::run(),
        Some("within") => runner::shim::userns::run(arguments),
        Some("fence") => runner::fence::run(arguments),
        Some("egress") => runner::egress::run(arguments),
        Some("launcher") => runner::shim::launcher::run(arguments),
        Some("tree") => return runner::tree::run(arguments),
        Some("unpack") => return runner::unpack::run(arguments),
        Some("version") => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("runner: {message}");
            ExitCode::FAILURE
        }
    }
}
