//! The process: one per folder, without privileges, until it is idle.

mod instance;
mod privileges;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control;
use crate::gateway::Gateway;
pub use privileges::User;

const CONTROL: &str = "control.sock";

pub struct Options {
    pub folder: PathBuf,
    pub user: Option<User>,
    pub idle: Duration,
}

/// Runs until the gateway is idle. Prints one line when it can be reached, or when another one runs.
pub fn serve(options: &Options) -> io::Result<()> {
    let folder = options.folder.join("egress");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(&folder)?;
    std::env::set_current_dir(&folder)?;
    let Some(_lock) = instance::lock()? else {
        println!("{{\"running\":true}}");
        return Ok(());
    };
    let listener = listen()?;
    privileges::give_up(options.user)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let gateway = Arc::new(Gateway::default());
        let listener = tokio::net::UnixListener::from_std(listener)?;
        tokio::spawn(control::accept(gateway.clone(), listener));
        println!("{{\"running\":true,\"pid\":{}}}", std::process::id());
        wait_until_idle(&gateway, options.idle).await;
        Ok(())
    })
}

fn listen() -> io::Result<UnixListener> {
    match fs::remove_file(CONTROL) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(CONTROL);
    nix::sys::stat::umask(mask);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn wait_until_idle(gateway: &Gateway, idle: Duration) {
    let mut since = Instant::now();
    while since.elapsed() < idle {
        tokio::time::sleep(idle.min(Duration::from_secs(1))).await;
        if !gateway.is_idle() {
            since = Instant::now();
        }
    }
}
