use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::*;

const SECRET: &str = "tok_7Hq+zW/19\"aXc";

fn scrubber(secrets: &[&str]) -> Arc<Scrubber> {
    let secrets: Vec<SecretString> = secrets.iter().map(|text| (*text).into()).collect();
    Scrubber::new(secrets.iter(), Vec::new()).unwrap().unwrap()
}

fn whole(scrubber: &Arc<Scrubber>, pieces: &[&[u8]]) -> Vec<u8> {
    let mut stream = Stream::new(Arc::clone(scrubber));
    let mut out: Vec<u8> = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&stream.push(Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&stream.finish());
    out
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn finds_the_forms_of_a_secret() {
    let scrubber = scrubber(&[SECRET]);
    let forms = [
        SECRET.to_owned(),
        "tok_7Hq%2BzW%2F19%22aXc".into(),
        "tok_7Hq%2bzW%2f19%22aXc".into(),
        "tok_7Hq+zW/19\\\"aXc".into(),
        "tok_7Hq+zW\\/19\\\"aXc".into(),
    ];
    for form in forms {
        assert_eq!(
            whole(&scrubber, &[form.as_bytes()]),
            "*".repeat(form.len()).into_bytes(),
            "{form}"
        );
    }
}

#[test]
fn finds_what_libraries_make_of_special_characters() {
    let scrubber = scrubber(&["a&b<c>d'e\"f+g/h i!j"]);
    let forms = [
        // Python's quote and quote_plus, Go's QueryEscape, URLSearchParams
        "a%26b%3Cc%3Ed%27e%22f%2Bg/h%20i%21j",
        "a%26b%3Cc%3Ed%27e%22f%2Bg%2Fh+i%21j",
        "a%26b%3cc%3ed%27e%22f%2bg%2fh%20i%21j",
        // JSON of Go, PHP and .NET
        r#"a\u0026b\u003cc\u003ed'e\"f+g/h i!j"#,
        r#"a\u0026b\u003Cc\u003Ed\u0027e\"f+g/h i!j"#,
        r#"a\u0026b\u003Cc\u003Ed\u0027e\"f\u002Bg/h i!j"#,
        // HTML
        "a&amp;b&lt;c&gt;d'e&quot;f+g/h i!j",
        "a&amp;b&lt;c&gt;d&#39;e&quot;f+g/h i!j",
        "a&amp;b&lt;c&gt;d&#x27;e&quot;f+g/h i!j",
        "a&amp;b&lt;c&gt;d&#39;e&#34;f+g/h i!j",
    ];
    for form in forms {
        let out = whole(&scrubber, &[form.as_bytes()]);
        assert_eq!(out, "*".repeat(form.len()).into_bytes(), "{form}");
    }
}

#[test]
fn a_token_has_few_forms() {
    // As it is, and twice in base64 for each of three offsets.
    assert!(scrubber(&["ghp_0123456789abcdef"]).patterns.len() <= 7);
}

#[test]
fn finds_a_secret_anywhere_in_base64() {
    let scrubber = scrubber(&[SECRET]);
    for before in 0..5 {
        for after in 0..4 {
            let text = format!("{}{SECRET}{}", "u".repeat(before), ":".repeat(after));
            for encoded in [STANDARD.encode(&text), URL_SAFE.encode(&text)] {
                let out = whole(&scrubber, &[encoded.as_bytes()]);
                assert_eq!(out.len(), encoded.len());
                let kept = out.iter().filter(|byte| **byte != b'*').count();
                // One character at each end depends on the neighbours, too.
                assert!(
                    kept * 6 <= (before + after) * 8 + 2 * 6 + 12,
                    "{encoded}: {}",
                    String::from_utf8_lossy(&out)
                );
            }
        }
    }
}

#[test]
fn masks_secrets_that_overlap() {
    let scrubber = scrubber(&["abcdefgh", "efghijkl", "defghi"]);
    for cut in 0..12 {
        let (left, right) = "abcdefghijkl".split_at(cut);
        assert_eq!(
            whole(&scrubber, &[left.as_bytes(), right.as_bytes()]),
            b"************",
            "cut at {cut}"
        );
    }
}

#[test]
fn passes_the_ends_of_messages_when_the_stream_pauses() {
    let scrubber = scrubber(&["0123456789abcdefghij"]);
    let mut stream = Stream::new(Arc::clone(&scrubber));
    assert_eq!(stream.push("message 01234".into()), "message ");
    assert!(stream.releasable());
    assert_eq!(stream.release(), "01234");
    assert!(!stream.releasable() && stream.held() == 0);
    // More than a quarter is never shown before it is known to be none.
    assert_eq!(stream.push("56789abcdefghi".into()), "");
    assert!(!stream.releasable() && stream.held() == 14);
    assert_eq!(stream.push("j!".into()), "***************!");
    assert_eq!(stream.finish(), "");
}

#[test]
fn returns_untouched_pieces_without_copying() {
    let mut stream = Stream::new(scrubber(&[SECRET]));
    let piece = Bytes::from(vec![b'.'; 1000]);
    assert_eq!(stream.push(piece.clone()).as_ptr(), piece.as_ptr());
}

#[test]
fn cleans_headers() {
    let scrubber = scrubber(&["Secret-12345"]);
    let mut headers = HeaderMap::new();
    headers.append("x-a", HeaderValue::from_static("1 Secret-12345 2"));
    headers.append("x-a", HeaderValue::from_static("fine"));
    headers.append(
        HeaderName::from_static("x-secret-12345"),
        HeaderValue::from_static("1"),
    );
    scrubber.headers(&mut headers);
    let values: Vec<_> = headers
        .get_all("x-a")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    assert_eq!(values, ["1 ************ 2", "fine"]);
    assert_eq!(headers.keys_len(), 1);
}

#[test]
fn uses_the_small_automaton_for_much_text() {
    let secrets: Vec<String> = (0..16).map(|n| format!("{n:04}-{}", "s".repeat(4000))).collect();
    let scrubber = scrubber(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(scrubber.all.kind(), AhoCorasickKind::ContiguousNFA);
    assert_eq!(
        whole(&scrubber, &[secrets[7].as_bytes()]),
        "*".repeat(4005).into_bytes()
    );
}

const SECRETS: [&str; 3] = ["aabaab", "abaabb", "longer-secret"];
static OVERLAPPING: LazyLock<Arc<Scrubber>> = LazyLock::new(|| scrubber(&SECRETS));

/// Text in which secrets and parts of them are frequent.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just("aabaab".to_owned()),
        Just("abaabb".to_owned()),
        Just("longer-secret".to_owned()),
        Just("longer-".to_owned()),
        Just(STANDARD.encode("user:longer-secret")),
        "[ab]{1,3}",
        any::<String>(),
    ];
    prop::collection::vec(part, 0..20).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// However a body is cut and wherever it pauses: the length stays, only secrets change, and no secret is left.
    #[test]
    fn cuts_and_pauses_change_nothing(text in text(), cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..12)) {
        let scrubber = Arc::clone(&OVERLAPPING);
        let expected = whole(&scrubber, &[&text]);
        for secret in SECRETS {
            prop_assert!(!contains(&expected, secret));
        }
        let mut cuts: Vec<(usize, bool)> = cuts.iter().map(|(at, pause)| (at.index(text.len() + 1), *pause)).collect();
        cuts.sort_unstable();
        let mut stream = Stream::new(Arc::clone(&scrubber));
        let mut out: Vec<u8> = Vec::new();
        let mut from = 0;
        let mut shown = 0;
        for (at, pause) in cuts {
            out.extend_from_slice(&stream.push(Bytes::copy_from_slice(&text[from..at])));
            if pause && stream.releasable() {
                shown += stream.held();
                out.extend_from_slice(&stream.release());
            }
            from = at;
        }
        out.extend_from_slice(&stream.push(Bytes::copy_from_slice(&text[from..])));
        out.extend_from_slice(&stream.finish());
        prop_assert_eq!(out.len(), text.len());
        let differ = out.iter().zip(&expected).filter(|(a, b)| a != b).count();
        prop_assert!(differ <= shown, "{} differ, {} were shown", differ, shown);
    }

    #[test]
    fn text_without_secrets_stays(text in prop::collection::vec(0x80u8..,  0..400), cut in any::<prop::sample::Index>()) {
        let scrubber = Arc::clone(&OVERLAPPING);
        let (left, right) = text.split_at(cut.index(text.len() + 1));
        prop_assert_eq!(whole(&scrubber, &[left, right]), text.clone());
    }
}

#[test]
fn nothing_to_find_is_no_scrubber() {
    assert!(Scrubber::new(std::iter::empty(), Vec::new()).unwrap().is_none());
    assert!(
        Scrubber::new(std::iter::empty(), vec![Zeroizing::new(b"dTpzZWNyZXQ=".to_vec())])
            .unwrap()
            .is_some()
    );
}
