//! Which of the runner's modes is wanted.

use runner::serve::startup::{Options, serve};
use std::process::ExitCode;

const USAGE: &str = "usage: runner serve  [--socket PATH | --listen-fd N | --handed-fd N] [--ready-fd N] [--user USER[:GROUP]] [--cwd FOLDER] [--umask MASK] [--limit NAME=VALUE]…
       runner bridge [--socket PATH]
       runner shim
       runner launcher
       runner within --uids MAP --gids MAP -- program …
       runner fence PID
       runner tree copy|squash|remove|measure|sync|serve …
       runner unpack FOLDER [--plain] [--no-sync] [--max-entries N] [--max-bytes N]
       runner version

serve   listens on PATH (or SANDKASTEN_RUNNER_SOCKET), or on a socket that it was given, or is handed connections over one, and runs what clients ask for
bridge  carries that socket over standard input and output
shim    prepares and starts a sandbox as standard input says, outside of it, and is its parent and witness
launcher  starts shims for an engine, whose own process is too large to start them quickly
within  runs a program in a user namespace in which its account is root
fence   limits what the network of a container may reach to what standard input says
tree    copies, merges, measures and removes the disks of sandboxes, outside of them
unpack  makes FOLDER, which is empty, the image layer whose tar archive is on standard input; --plain: no layer, just the files";

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
        Some("launcher") => runner::shim::launcher::run(),
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
