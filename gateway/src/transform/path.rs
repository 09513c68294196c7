//! Paths that a server may read as another path than the one that a transform matched.

use percent_encoding::percent_decode;

const MAX_LEVELS: usize = 4;

/// Whether a path has a dot segment at any level of decoding. Such a path can leave the prefix that it starts with.
///
/// `%2f` and `//` alone cannot: what starts with the prefix stays below it. So they are allowed; npm and GitLab use
/// `%2f`. A parameter (`..;x/`) counts as a dot segment, because some servers drop it first. So do paths that are
/// encoded more than four times, and the bytes of overlong UTF-8 (`%c0%ae` is a dot for some servers).
pub(super) fn can_climb(path: &str) -> bool {
    let mut text = path.as_bytes().to_vec();
    for _ in 0..MAX_LEVELS {
        if has_dot_segment(&text) || text.iter().any(|b| matches!(b, 0xc0 | 0xc1)) {
            return true;
        }
        let decoded: Vec<u8> = percent_decode(&text).collect();
        if decoded.len() == text.len() {
            return false;
        }
        text = decoded;
    }
    true
}

fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|b| matches!(b, b'/' | b'\\')).any(|segment| {
        let name = segment
            .split(|b| matches!(b, b';' | b'?' | b'#' | 0))
            .next()
            .unwrap_or(segment);
        // Spaces and controls: some servers trim them.
        let name: Vec<u8> = name.iter().copied().filter(|b| *b > b' ' && *b != 0x7f).collect();
        name == b"." || name == b".."
    })
}

#[cfg(test)]
mod tests {
    use super::can_climb;

    #[test]
    fn finds_dot_segments_in_every_disguise() {
        for path in [
            "/repos/../user",
            "/repos/..",
            "/repos/./x",
            "/repos/%2e%2e/user",
            "/repos/.%2E/user",
            "/repos/..%2fuser",
            "/repos%2f..%2fuser",
            "/repos/%252e%252e/user",
            "/repos/%25252e%25252e%25252fuser",
            "/repos/..\\user",
            "/repos\\..\\user",
            "/repos/..%5cuser",
            "/repos/..;/user",
            "/repos/..;a=b/user",
            "/repos/..%3f/user",
            "/repos/..%23/user",
            "/repos/..%00/user",
            "/repos/..%20/user",
            "/repos/%20../user",
            "/repos/.%09./user",
            "/repos/%c0%ae%c0%ae/user",
            "/repos/%25252525252525252e%2e/",
        ] {
            assert!(can_climb(path), "{path}");
        }
    }

    #[test]
    fn leaves_ordinary_paths_alone() {
        for path in [
            "/",
            "/repos/a.b/..c/d..",
            "/repos/...",
            "/@scope%2fname",
            "/api/projects/group%2Fproject",
            "/a//b",
            "/a/100%25",
            "/caf%C3%A9/%E2%9C%93",
            "/a;v=1/b",
            "/%",
            "/%zz",
        ] {
            assert!(!can_climb(path), "{path}");
        }
    }

    #[test]
    fn a_long_path_takes_no_long_time() {
        let path = format!("/{}", "%25".repeat(20_000));
        let began = std::time::Instant::now();
        can_climb(&path);
        assert!(began.elapsed().as_millis() < 500);
    }
}
