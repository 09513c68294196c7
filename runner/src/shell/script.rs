//! What is typed to a shell. Pure text, so that every byte of it can be tested.
//!
//! A command must run in the session's own shell (or `cd`, functions and jobs would be lost), while none of our own words may be
//! visible to it, run by it, or eaten by it. So:
//!
//! - The shell reads from a socket of ours, its *control* input, as its standard input. A command is one quoted word of one
//!   line, run as `eval '<the text>' </dev/null >/dev/pts/7 2>&1 198>&-`. An open quote or a heredoc cannot reach beyond its
//!   own quotes, and a program that reads standard input finds its end, not our next line.
//! - Bash runs that `eval` from PROMPT_COMMAND, the one place where an interactive bash behaves as in a script (no `[1]+ Done` of
//!   an older background job amid the output, no `exit` printed) and yet survives an interrupt of its own loops. PROMPT_COMMAND
//!   is therefore ours; so are the default EXIT trap and the trap of signal 40.
//! - Output goes to a terminal made for that one command, so a background job goes on writing to *its* command's terminal
//!   and never into the output of a later one.
//! - The report of status and folder goes to a *status* socket (descriptor 198; a POSIX sh has only single digits: 9), preceded by a
//!   nonce of this one command. While the text runs, that descriptor is closed; the shell's own saved copy, and the control
//!   input, are close-on-exec, so no program can see either. It is asked for again on the next line, for when the text was
//!   interrupted.
//!
//! Both are sockets and not pipes, because a pipe in somebody's `/proc/<pid>/fd` can be opened by any process of the same user.
//!
//! What that does not stop: shell code *inside* the session is the session. It may rewrite our traps or find the saved descriptors
//! by number, and so lie about its own status or end its own shell; it could `exit` with any status anyway. And a process that may
//! trace the shell (same user, ptrace not denied by the sandbox) may do to it what a debugger may.

/// The shells we know how to drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Bash,
    Sh,
}

/// A real-time signal that the shells trap for us; programs leave those alone.
pub const ABORT_SIGNAL: i32 = 40;

/// The status by which a login shell says that it is ready. No shell comes to it by itself at that place.
pub const READY: i32 = 77;

impl Flavour {
    pub fn program(self) -> &'static str {
        match self {
            Flavour::Bash => "bash",
            Flavour::Sh => "sh",
        }
    }

    /// Where the shell finds its status pipe.
    pub fn status_fd(self) -> i32 {
        match self {
            Flavour::Bash => 198,
            Flavour::Sh => 9,
        }
    }

    /// Interactive, because only an interactive shell survives an interrupt of its own loops, and keeps job control.
    pub fn arguments(self, login: bool) -> Vec<&'static str> {
        match (self, login) {
            (Flavour::Bash, false) => vec!["bash", "--norc", "--noprofile", "--noediting", "-i"],
            (Flavour::Bash, true) => vec!["bash", "--login", "--noediting", "-i"],
            (Flavour::Sh, false) => vec!["sh", "-i"],
            (Flavour::Sh, true) => vec!["-sh", "-i"],
        }
    }

    /// Said once. The abort trap turns "the command was killed" into "and do not go on with the rest of its line". The exit
    /// trap tells the last folder, on the controlling terminal: the status pipe may be closed at that moment.
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

    /// Said to a login shell after the prologue, and run in the way that commands are run. Takes back what a profile may have left that
    /// would end or mislead the shell (`set -e`, ignored signals, another folder), gives back what it took from PATH, and says that the
    /// shell is ready, if this is still the shell that we have started. A profile that replaced the shell is noticed by the plain report
    /// of the second line.
    pub fn settle(self, nonce: &str, pid: libc::pid_t, path: &[u8], cwd: Option<&[u8]>) -> Vec<u8> {
        let (builtin, fd) = match self {
            Flavour::Bash => (r"\builtin ", 198),
            Flavour::Sh => (r"\", 9),
        };
        // A login bash leaves out .bashrc; profiles usually read it. Where there is no profile, we do.
        let rc = match self {
            Flavour::Bash => {
                "[ -e ~/.bash_profile ] || [ -e ~/.bash_login ] || [ -e ~/.profile ] || [ ! -r ~/.bashrc ] || . ~/.bashrc; "
            }
            Flavour::Sh => "",
        };
        let mut text = format!("{rc}{builtin}set +e; {builtin}trap - INT QUIT TERM; ").into_bytes();
        // What the image or the caller had put on PATH comes first, as it did before the profile set another one.
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

    /// One command: its text, where its output goes, and the report. `last` is `$?` of the one before, which the report
    /// itself has overwritten in the shell.
    pub fn line(self, text: &[u8], out: &str, err: Option<&str>, nonce: &str, last: i32) -> Vec<u8> {
        let fd = self.status_fd();
        let mut run = Vec::with_capacity(text.len() + 256);
        match self {
            Flavour::Bash if last != 0 => {
                run.extend(format!("(builtin exit {last}) || \\builtin eval ").bytes())
            }
            Flavour::Bash => run.extend(b"\\builtin eval "),
            // An error within eval throws the rest of the line away; the prompt then tells us to ask (see `shell_run`).
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
                // The report's newline belongs to the line, not to the word.
                run.pop();
                let mut line = b"\\builtin unset PROMPT_COMMAND; PROMPT_COMMAND=".to_vec();
                quote(&mut line, &[b"PROMPT_COMMAND=; ", &run[..]].concat());
                line.push(b'\n');
                // Not read before the text has ended; counts only if the report above did not happen.
                line.extend(self.report(nonce));
                line
            }
        }
    }

    /// Asks for status and folder.
    pub fn report(self, nonce: &str) -> Vec<u8> {
        let (fd, word) = match self {
            Flavour::Bash => (198, r"\builtin printf"),
            Flavour::Sh => (9, r"\printf"),
        };
        let text = format!(r#"{word} '{nonce}\0%s\0%s\0' "$?" "${{PWD-}}" >&{fd}"#);
        [text.as_bytes(), b"\n"].concat()
    }
}

/// A report as the shell wrote it: nonce, status, folder.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub nonce: Vec<u8>,
    pub status: Option<i32>,
    pub cwd: Vec<u8>,
}

/// Takes the first whole report out of `buffer`.
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

/// The folder that a shell told with its nonce on its terminal, as it left.
pub fn last_folder(heard: &[u8], nonce: &str) -> Option<Vec<u8>> {
    let at = heard
        .windows(nonce.len())
        .rposition(|window| window == nonce.as_bytes())?;
    take_report(&mut heard[at..].to_vec()).map(|report| report.cwd)
}

/// The one place where a shell word is quoted.
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
    fn a_quote_cannot_leave_its_quotes() {
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
        // One quote, quoted twice.
        let word = r"'\'''\''\'\'''\'''\''";
        let rest = " </dev/null >/dev/pts/3 2>/dev/pts/4 198>&-; ";
        assert!(line.starts_with(&format!("{start}{word}{rest}")), "{line}");
        assert_eq!(line.matches('\n').count(), 2);
    }

    #[test]
    fn reports_are_cut_at_nul_only() {
        let mut buffer = b"n1\x003\0/a b\n:c\0n2\x00".to_vec();
        let report = take_report(&mut buffer).unwrap();
        assert_eq!((report.status, report.cwd), (Some(3), b"/a b\n:c".to_vec()));
        assert_eq!(take_report(&mut buffer), None);
        assert_eq!(buffer, b"n2\0");
    }

    #[test]
    fn the_last_words_of_a_shell_name_its_folder() {
        let heard = b"prompt> abc\x000\0/old\0noise abc\x003\0/new\0\r\n";
        assert_eq!(last_folder(heard, "abc"), Some(b"/new".to_vec()));
        assert_eq!(last_folder(heard, "xyz"), None);
    }
}
