//! git over HTTPS: clone and push with a password that only the gateway has.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::clients::Client;
use crate::rig::*;

/// `git http-backend` as CGI.
async fn backend(root: PathBuf, request: Request<Incoming>) -> Result<Response<Body>> {
    if request
        .headers()
        .get("authorization")
        .is_none_or(|value| value != "Basic Z2l0OnRva183SHErelcvMTlhWGM=")
    {
        return Ok(Response::builder()
            .status(401)
            .header("www-authenticate", "Basic")
            .body(body("who?"))?);
    }
    let header = |name: &str| {
        request
            .headers()
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
            .to_owned()
    };
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "git")
        .env("REQUEST_METHOD", request.method().as_str())
        .env("PATH_INFO", request.uri().path())
        .env("QUERY_STRING", request.uri().query().unwrap_or(""))
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("HTTP_GIT_PROTOCOL", header("git-protocol"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let upload = request.into_body().collect().await?.to_bytes();
    let mut stdin = child.stdin.take().unwrap();
    let writer = tokio::spawn(async move { stdin.write_all(&upload).await });
    let output = child.wait_with_output().await?.stdout;
    let _ = writer.await?;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end])?.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(&value[..3]),
            _ => response.header(name, value),
        };
    }
    Ok(response.body(body(output[end + 4..].to_vec()))?)
}

fn git(folder: &Path, args: &str) {
    let status = std::process::Command::new("git")
        .args(args.split(' '))
        .current_dir(folder)
        .status()
        .unwrap();
    assert!(status.success(), "git {args}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_and_pushes() -> Result {
    let world = World::new();
    let root = std::env::temp_dir().join(format!("broker-git-{}", std::process::id()));
    std::fs::create_dir_all(&root)?;
    git(&root, "init --quiet --bare -b main repo.git");
    git(&root.join("repo.git"), "config http.receivepack true");
    let served = root.clone();
    let acceptor = world.acceptor(&["h2", "http/1.1"]);
    let port = upstream(acceptor, move |request| backend(served.clone(), request)).await?;
    let rules = transforms(serde_json::json!([
        { "match": { "host": HOST, "path": "/repo.git/" },
          "headers": { "authorization": { "secret": "token", "basic": "git" } } }
    ]));
    let client = Client::new(Gateway::new(&world, port, rules)).await?;
    let script = "
        set -e
        export GIT_TRACE_CURL=1 GIT_CURL_VERBOSE=1 GIT_TERMINAL_PROMPT=0 GIT_TRACE_REDACT=0
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@test
        git clone https://api.test/repo.git work
        cd work
        head -c 5000000 /dev/urandom > blob
        git add blob
        git commit -m one
        git push origin HEAD:main
        cd ..
        git clone https://api.test/repo.git again
        cmp work/blob again/blob
        if git clone https://api.test/other.git; then exit 9; fi
        if grep -r 7Hq+zW . || grep -r Z2l0OnRva183SHE .; then exit 8; fi
        echo done";
    let out = client.output("bash", &["-c", script]).await?.unwrap();
    assert!(out.ends_with("done\n"), "{out}");
    std::fs::remove_dir_all(&root)?;
    Ok(())
}
