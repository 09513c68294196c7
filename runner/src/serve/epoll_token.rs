//! What an epoll event refers to. The top byte is a tag. A key is not reused while its descriptor is
//! registered, and an event for a removed object finds nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Listener,
    Signals,
    WorkerOpened,
    Conn(u32),
    TaskOut {
        task: u32,
        channel: u8,
    },
    TaskIn(u32),
    RelayIn {
        conn: u32,
        stream: u32,
    },
    RelayOut {
        conn: u32,
        stream: u32,
    },
    ShellStatus(u32),
    ShellControl(u32),
    ShellTerminal(u32),
    /// A child that has not executed its program yet, by pid.
    Start(u32),
}

/// Connection keys share the token with a stream id, so they have 24 bits.
pub const CONN_MASK: u32 = 0x00ff_ffff;

impl From<Token> for u64 {
    fn from(token: Token) -> u64 {
        let pair = |tag: u64, conn: u32, stream: u32| tag << 56 | (conn as u64) << 32 | stream as u64;
        match token {
            Token::Listener => 0,
            Token::Signals => 1 << 56,
            Token::WorkerOpened => 10 << 56,
            Token::Conn(key) => pair(2, 0, key),
            Token::TaskOut { task, channel } => pair(3, channel as u32, task),
            Token::TaskIn(key) => pair(4, 0, key),
            Token::RelayIn { conn, stream } => pair(5, conn, stream),
            Token::RelayOut { conn, stream } => pair(6, conn, stream),
            Token::ShellStatus(key) => pair(7, 0, key),
            Token::ShellControl(key) => pair(8, 0, key),
            Token::ShellTerminal(key) => pair(9, 0, key),
            Token::Start(pid) => pair(11, 0, pid),
        }
    }
}

impl Token {
    pub fn unpack(token: u64) -> Option<Token> {
        let (upper, key) = ((token >> 32) as u32 & CONN_MASK, token as u32);
        Some(match token >> 56 {
            0 => Token::Listener,
            1 => Token::Signals,
            2 => Token::Conn(key),
            3 => Token::TaskOut {
                task: key,
                channel: upper as u8,
            },
            4 => Token::TaskIn(key),
            5 => Token::RelayIn {
                conn: upper,
                stream: key,
            },
            6 => Token::RelayOut {
                conn: upper,
                stream: key,
            },
            7 => Token::ShellStatus(key),
            8 => Token::ShellControl(key),
            9 => Token::ShellTerminal(key),
            10 => Token::WorkerOpened,
            11 => Token::Start(key),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Listener,
            Token::Signals,
            Token::WorkerOpened,
            Token::Conn(u32::MAX),
            Token::TaskOut {
                task: u32::MAX,
                channel: 2,
            },
            Token::TaskIn(7),
            Token::RelayIn {
                conn: CONN_MASK,
                stream: u32::MAX,
            },
            Token::RelayOut { conn: 1, stream: 0 },
            Token::ShellStatus(1),
            Token::ShellControl(2),
            Token::ShellTerminal(3),
            Token::Start(4_194_304),
        ] {
            assert_eq!(Token::unpack(token.into()), Some(token));
        }
    }
}
