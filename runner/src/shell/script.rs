//! The text that the runner types to a shell. No I/O, so tests can compare every byte.
//!
//! A command runs in the session's own shell, to keep `cd`, functions and jobs. The runner's own text must be
//! invisible to the command, and the command must not read it.
//!
//! - The shell's standard input is a socket, the *control* input. A command is one quoted word of one line:
//!   `eval '<the text>' </dev/null >/dev/pts/7 2>&1 198>&-`. An open quote or heredoc ends with that word, and a
//!   program that reads standard input finds end-of-file instead of the next line.
//! - Bash runs this `eval` from PROMPT_COMMAND. There an interactive bash behaves like a script (no `[1]+ Done`
//!   of older jobs in the output, no printed `exit`) and still survives an interrupt of its own loops. So the
//!   runner reserves PROMPT_COMMAND, the default EXIT trap and the trap of signal 40.
//! - Each command has its own output terminal, so a background job never writes into the output of a later
//!   command.
//! - Status and working directory go to a *status* socket: descriptor 198, or 9 in a POSIX sh, which allows
//!   single digits only. The report starts with a nonce of the command. While the text runs, the descriptor is
//!   closed. The shell's saved copy and the control input are close-on-exec. The next line asks for the report
//!   again, in case the text was interrupted.
//!
//! Both are sockets, because any process of the same user can open a pipe through `/proc/<pid>/fd`.
//!
//! Not protected: shell code of the session itself can rewrite the traps or find the saved descriptors, and so
//! fake its own status or end its own shell. A process that may ptrace the shell can do what a debugger can.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Bash,
    Sh,
}

/// A real-time signal that the shells trap. Programs rarely use these.
pub const ABORT_SIGNAL: i32 = 40;

/// The status that reports a login shell as ready. No shell reports it there by accident.
pub const READY: i32 = 77;

impl Flavour {
    pub fn program(self) -> &'static str {
        match self {
            Flavour::Bash => "bash",
            Flavour::Sh => "sh",
        }
    }

    /// The descriptor of the status socket.
    pub fn status_fd(self) -> i32 {
        match self {
            Flavour::Bash => 198,
            Flavour::Sh => 9,
        }
    }

    /// Interactive, because only an interactive shell survives an interrupt of its own loops and has job
    /// control.
    pub fn arguments(self, login: bool) -> Vec<&'static str> {
        match (self, login) {
            (Flavour::Bash, false) => vec!["bash", "--norc", "--noprofile", "--noediting", "-i"],
            (Flavour::Bash, true) => vec!["bash", "--login", "--noediting", "-i"],
            (Flavour::Sh, false) => vec!["sh", "-i"],
            (Flavour::Sh, true) => vec!["-sh", "-i"],
        }
    }

    /// Typed once. The abort trap stops the rest of a command line after its program was killed. The EXIT
    /// trap reports the last working directory on the controlling terminal, because the status socket may be
    /// closed then.
    pub fn prologue(self, nonce: &str) -> Vec<u8> {
        let report = format!(r#"printf "{nonce}\0%s\0%s\0" "$?" "${{PWD-}}" >/dev/tty"#);
        match self {
            Flavour::Bash => format!(
                "set +o history +H; unset HISTFILE MAILCHECK PROMPT_COMMAND; PS1='' PS2=''; \
                 trap 'builtin kill -INT $$' {ABORT_SIGNAL}; trap 'builtin {report}' EXIT\n"
            ),
            Flavour::Sh => {
                format!("PS1=' ' PS2=''; trap 'kill -INT $$' {ABORT_SIGNAL}; trap '{report}' EXIT\n")
            }
        }
        .into_bytes()
    }

    /// Typed to a login shell after the prologue, and run like a command. It reverts what the profile
    /// changed (`set -e`, ignored signals, working directory), restores removed PATH entries, and reports
    /// READY if the shell is still the process that the runner started. If the profile replaced the shell,
    /// the second line reports another status.
    pub fn login_check(self, nonce: &str, pid: libc::pid_t, path: &[u8], cwd: Option<&[u8]>) -> Vec<u8> {
        let (builtin, fd) = match self {
            Flavour::Bash => (r"\builtin ", 198),
            Flavour::Sh => (r"\", 9),
        };
        // A login bash does not read .bashrc; profiles usually do. Read it if there is no profile.
        let rc = match self {
            Flavour::Bash => {
                "[ -e ~/.bash_profile ] || [ -e ~/.bash_login ] || [ -e ~/.profile ] || [ ! -r ~/.bashrc ] || . ~/.bashrc; "
            }
            Flavour::Sh => "",
        };
        let mut text = format!("{rc}{builtin}set +e; {builtin}trap - INT QUIT TERM; ").into_bytes();
        // PATH entries of the image and the caller come first, as before the profile.
        for entry in path
            .split(|byte| *byte == b':')
            .rev()
            .filter(|entry| !entry.is_empty())
        {
            text.extend(b"case \":${PATH-}:\" in *:");
            quote(&mut text, entry);
            text.extend(b":*) ;; *) PATH=");
            quote(&mut text, entry);
            text.extend(b"${PATH:+:$PATH} ;; esac; ");
        }
        text.extend(format!("{builtin}export PATH; ").bytes());
        if let Some(cwd) = cwd {
            text.extend(format!("{builtin}cd -- ").bytes());
            quote(&mut text, cwd);
            text.extend(b"; ");
        }
        let report = format!(r#"'{nonce}\0%s\0%s\0' {READY} "${{PWD-}}" >&{fd}"#);
        text.extend(
            format!("{builtin}[ \"$$\" = {pid} ] && {builtin}eval : && {builtin}printf {report}").bytes(),
        );
        let mut line = match self {
            Flavour::Sh => text,
            Flavour::Bash => {
                let mut line = b"\\builtin unset PROMPT_COMMAND; PROMPT_COMMAND=".to_vec();
                quote(&mut line, &[b"PROMPT_COMMAND=; ", &text[..]].concat());
                line
            }
        };
        line.push(b'\n');
        line.extend(self.report(nonce));
        line
    }

    /// One command: its text, its output terminals and the report. `last` is `$?` of the previous command,
    /// which the report itself overwrote.
    pub fn line(self, text: &[u8], out: &str, err: Option<&str>, nonce: &str, last: i32) -> Vec<u8> {
        let fd = self.status_fd();
        let mut run = Vec::with_capacity(text.len() + 256);
        match self {
            Flavour::Bash if last != 0 => {
                run.extend(format!("(builtin exit {last}) || \\builtin eval ").bytes())
            }
            Flavour::Bash => run.extend(b"\\builtin eval "),
            // An error inside eval drops the rest of the line and prompts. Then `shell_terminal` asks for
            // the report again.
            Flavour::Sh if last != 0 => run.extend(format!("PS1=' '; (exit {last}) || \\eval ").bytes()),
            Flavour::Sh => run.extend(b"PS1=' '; \\eval "),
        }
        quote(&mut run, text);
        let err = err.map_or("&1".to_owned(), str::to_owned);
        run.extend(format!(" </dev/null >{out} 2>{err} {fd}>&-; ").bytes());
        run.extend(self.report(nonce));
        match self {
            Flavour::Sh => run,
            Flavour::Bash => {
                // The newline ends the line and is not part of the quoted word.
                run.pop();
                let mut line = b"\\builtin unset PROMPT_COMMAND; PROMPT_COMMAND=".to_vec();
                quote(&mut line, &[b"PROMPT_COMMAND=; ", &run[..]].concat());
                line.push(b'\n');
                // Read only after the text has ended. It counts only if the report above did not happen.
                line.extend(self.report(nonce));
                line
            }
        }
    }

    /// Asks for status and working directory.
    pub fn report(self, nonce: &str) -> Vec<u8> {
        let (fd, word) = match self {
            Flavour::Bash => (198, r"\builtin printf"),
            Flavour::Sh => (9, r"\printf"),
        };
        let text = format!(r#"{word} '{nonce}\0%s\0%s\0' "$?" "${{PWD-}}" >&{fd}"#);
        [text.as_bytes(), b"\n"].concat()
    }
}

/// A report of the shell.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub nonce: Vec<u8>,
    pub status: Option<i32>,
    pub cwd: Vec<u8>,
}

/// Removes the first complete report from `buffer`.
pub fn take_report(buffer: &mut Vec<u8>) -> Option<Report> {
    let ends: Vec<usize> = buffer
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == 0)
        .map(|(i, _)| i)
        .take(3)
        .collect();
    let &[first, second, third] = &ends[..] else {
        return None;
    };
    let status = std::str::from_utf8(&buffer[first + 1..second])
        .ok()
        .and_then(|text| text.parse().ok());
    let report = Report {
        nonce: buffer[..first].to_vec(),
        status,
        cwd: buffer[second + 1..third].to_vec(),
    };
    buffer.drain(..=third);
    Some(report)
}

/// The working directory that the EXIT trap reported.
pub fn last_cwd_report(heard: &[u8], nonce: &str) -> Option<Vec<u8>> {
    let at = heard
        .windows(nonce.len())
        .rposition(|window| window == nonce.as_bytes())?;
    take_report(&mut heard[at..].to_vec()).map(|report| report.cwd)
}

/// All shell quoting happens here.
fn quote(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'\'');
    for byte in text {
        match byte {
            b'\'' => line.extend(b"'\\''"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_a_command_are_escaped() {
        let line = Flavour::Sh.line(b"echo 'a'\n$(b)", "/dev/pts/3", None, "n", 0);
        let want = concat!(
            r"PS1=' '; \eval 'echo '\''a'\''",
            "\n",
            r#"$(b)' </dev/null >/dev/pts/3 2>&1 9>&-; \printf 'n\0%s\0%s\0' "$?" "${PWD-}" >&9"#,
            "\n"
        );
        assert_eq!(String::from_utf8(line).unwrap(), want);
        let line =
            String::from_utf8(Flavour::Bash.line(b"'", "/dev/pts/3", Some("/dev/pts/4"), "n", 3)).unwrap();
        let start = r"\builtin unset PROMPT_COMMAND; PROMPT_COMMAND='PROMPT_COMMAND=; (builtin exit 3) || \builtin eval ";
        // One quote, escaped twice.
        let word = r"'\'''\''\'\'''\'''\''";
        let rest = " </dev/null >/dev/pts/3 2>/dev/pts/4 198>&-; ";
        assert!(line.starts_with(&format!("{start}{word}{rest}")), "{line}");
        assert_eq!(line.matches('\n').count(), 2);
    }

    #[test]
    fn reports_end_only_at_nul() {
        let mut buffer = b"n1\x003\0/a b\n:c\0n2\x00".to_vec();
        let report = take_report(&mut buffer).unwrap();
        assert_eq!((report.status, report.cwd), (Some(3), b"/a b\n:c".to_vec()));
        assert_eq!(take_report(&mut buffer), None);
        assert_eq!(buffer, b"n2\0");
    }

    #[test]
    fn the_exit_report_names_the_working_directory() {
        let heard = b"prompt> abc\x000\0/old\0noise abc\x003\0/new\0\r\n";
        assert_eq!(last_cwd_report(heard, "abc"), Some(b"/new".to_vec()));
        assert_eq!(last_cwd_report(heard, "xyz"), None);
    }
}
