//! Fuzzes the two decoders with random and slightly modified input: they must parse or reject it, and never
//! panic. A failing run prints its seed; set SANDKASTEN_FUZZ_SEED to repeat it. The TypeScript tests fuzz
//! the whole runner through its socket.

use runner::wire::cbor::{decode, encode};
use runner::wire::frame::parse;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn seed() -> u64 {
    let given = std::env::var("SANDKASTEN_FUZZ_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| std::process::id() as u64 * 7919);
    // The test harness shows this only on failure.
    println!("seed {seed}");
    seed
}

#[test]
fn random_bytes_are_rejected_or_incomplete() {
    let mut random = Random(seed());
    for _ in 0..100_000 {
        let len = random.next() as usize % 64;
        let bytes = random.bytes(len);
        if let Ok(Some((frame, used))) = parse(&bytes) {
            assert!(used <= bytes.len() && frame.payload.len() < used);
        }
        if let Ok(value) = decode(&bytes) {
            assert_eq!(encode(&value), bytes, "one value has one encoding");
        }
    }
}

#[test]
fn golden_frames_with_flipped_bits_are_rejected_or_other_frames() {
    let mut random = Random(seed());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/golden");
    for entry in std::fs::read_dir(folder).expect("the golden frames are in the repository") {
        let path = entry.expect("a readable folder").path();
        if path.extension().is_none_or(|extension| extension != "hex") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("golden frames are text");
        let digits: String = text.split_whitespace().collect();
        let golden: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap_or(0))
            .collect();
        for _ in 0..2000 {
            let mut bytes = golden.clone();
            for _ in 0..1 + random.next() % 3 {
                let at = random.next() as usize % bytes.len();
                bytes[at] ^= 1 << (random.next() % 8);
            }
            if let Ok(Some((frame, _))) = parse(&bytes)
                && let Ok(value) = decode(frame.payload)
            {
                assert_eq!(encode(&value), frame.payload);
            }
        }
    }
}
