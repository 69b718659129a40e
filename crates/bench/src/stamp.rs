//! Bodies that can be told from all others.
//!
//! A body begins with a stamp in hex: a mark, the run, the message's stream, its number there, the
//! instant of its send, and a checksum of these. The rest is taken from one long text of the run, from
//! a place that the stamp decides, so that each byte of a received body is known beforehand.

/// Begins every body: who sent it, and the form of the stamp.
const MARK: &[u8; 4] = b"hkb1";

/// Hex digits of the stamp's fields.
const RUN_DIGITS: usize = 12;
const STREAM_DIGITS: usize = 6;
const SEQUENCE_DIGITS: usize = 10;
const INSTANT_DIGITS: usize = 14;
const CHECKSUM_DIGITS: usize = 8;

const CHECKED_BYTES: usize =
    MARK.len() + RUN_DIGITS + STREAM_DIGITS + SEQUENCE_DIGITS + INSTANT_DIGITS;

/// The shortest body, in bytes.
pub(crate) const STAMP_BYTES: usize = CHECKED_BYTES + CHECKSUM_DIGITS;

/// Runs are numbered below this.
pub(crate) const RUN_LIMIT: u64 = 1 << (4 * RUN_DIGITS);

/// Streams are numbered below this; 2^20 of them take some 60 MiB.
pub(crate) const STREAM_LIMIT: u32 = 1 << 20;

/// Places where a body's rest may begin in the run's text; prime, so that streams differ.
const PLACES: u64 = 1021;

/// What a body says of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The sequence of messages that it is in: on FIFO queues, one for each message group.
    pub(crate) stream: u32,
    /// Its number there, from 0.
    pub(crate) sequence: u64,
    /// When its send began or was due: nanoseconds on the run's clock.
    pub(crate) sent_at: u64,
}

/// Why a body is not one of the run's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    #[error("has no stamp of this run")]
    Stranger,
    #[error("has a stamp of this run that is damaged")]
    Stamp,
    #[error("is not what was sent with its stamp")]
    Rest,
}

/// Writes and reads the bodies of one run.
#[derive(Debug)]
pub(crate) struct Bodies {
    run: u64,
    length: usize,
    text: Vec<u8>,
}

impl Bodies {
    /// All bodies have this length, in bytes.
    pub(crate) fn new(run: u64, length: usize) -> Self {
        assert!(run < RUN_LIMIT, "a run's number fits its digits");
        assert!(length >= STAMP_BYTES, "a body has room for its stamp");
        let places = usize::try_from(PLACES).expect("a small number");
        let mut state = run | 1;
        let letter = |_| {
            // Xorshift: cheap, and does not compress.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b'a' + u8::try_from((state >> 32) % 26).expect("below 26")
        };
        let text = (0..length - STAMP_BYTES + places).map(letter).collect();
        Self { run, length, text }
    }

    /// Appends the body of the message with this stamp: letters and digits alone.
    pub(crate) fn write(&self, stamp: &Stamp, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(MARK);
        put_hex(out, self.run, RUN_DIGITS);
        put_hex(out, stamp.stream.into(), STREAM_DIGITS);
        put_hex(out, stamp.sequence, SEQUENCE_DIGITS);
        put_hex(out, stamp.sent_at, INSTANT_DIGITS);
        let checksum = checksum(&out[begin..]);
        put_hex(out, checksum.into(), CHECKSUM_DIGITS);
        out.extend_from_slice(self.rest(stamp));
    }

    /// Reads the stamp of a body and compares the rest.
    pub(crate) fn read(&self, body: &[u8]) -> Result<Stamp, BodyFault> {
        let rest = body.strip_prefix(MARK).ok_or(BodyFault::Stranger)?;
        let (run, rest) = take_hex(rest, RUN_DIGITS).ok_or(BodyFault::Stranger)?;
        if run != self.run {
            return Err(BodyFault::Stranger);
        }
        let (stream, rest) = take_hex(rest, STREAM_DIGITS).ok_or(BodyFault::Stamp)?;
        let (sequence, rest) = take_hex(rest, SEQUENCE_DIGITS).ok_or(BodyFault::Stamp)?;
        let (sent_at, rest) = take_hex(rest, INSTANT_DIGITS).ok_or(BodyFault::Stamp)?;
        let (claimed, rest) = take_hex(rest, CHECKSUM_DIGITS).ok_or(BodyFault::Stamp)?;
        if claimed != u64::from(checksum(&body[..CHECKED_BYTES])) {
            return Err(BodyFault::Stamp);
        }
        let stamp = Stamp {
            stream: u32::try_from(stream).expect("six digits"),
            sequence,
            sent_at,
        };
        if rest == self.rest(&stamp) {
            Ok(stamp)
        } else {
            Err(BodyFault::Rest)
        }
    }

    fn rest(&self, stamp: &Stamp) -> &[u8] {
        let place = (u64::from(stamp.stream) * 31 + stamp.sequence * 7) % PLACES;
        let begin = usize::try_from(place).expect("a small number");
        &self.text[begin..begin + self.length - STAMP_BYTES]
    }
}

/// Appends the lowest digits of a number, which has no others.
pub(crate) fn put_hex(out: &mut Vec<u8>, number: u64, digits: usize) {
    assert!(number >> (4 * digits) == 0, "{number} fits its digits");
    for place in (0..digits).rev() {
        let digit = (number >> (4 * place)) & 0xf;
        out.push(b"0123456789abcdef"[usize::try_from(digit).expect("one digit")]);
    }
}

fn take_hex(text: &[u8], digits: usize) -> Option<(u64, &[u8])> {
    let (text, rest) = text.split_at_checked(digits)?;
    let number = text.iter().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(digit))
    })?;
    Some((number, rest))
}

/// FNV-1a: against accidents, not against intent.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAMP: Stamp = Stamp {
        stream: 77,
        sequence: 123_456,
        sent_at: 98_765_432_100,
    };

    fn body(bodies: &Bodies) -> Vec<u8> {
        let mut body = Vec::new();
        bodies.write(&STAMP, &mut body);
        body
    }

    #[test]
    fn a_change_of_any_byte_is_seen() {
        let bodies = Bodies::new(42, 120);
        let body = body(&bodies);
        assert_eq!(body.len(), 120);
        assert_eq!(bodies.read(&body), Ok(STAMP));
        for place in 0..body.len() {
            let mut changed = body.clone();
            changed[place] ^= 1;
            bodies.read(&changed).unwrap_err();
        }
        for length in 0..body.len() {
            bodies.read(&body[..length]).unwrap_err();
        }
        bodies.read(&[&body[..], b"x"].concat()).unwrap_err();
    }

    #[test]
    fn another_run_is_a_stranger() {
        let body = body(&Bodies::new(42, 100));
        assert_eq!(Bodies::new(43, 100).read(&body), Err(BodyFault::Stranger));
        assert_eq!(
            Bodies::new(43, 100).read(b"hello"),
            Err(BodyFault::Stranger)
        );
    }

    #[test]
    fn the_rest_of_one_message_is_not_that_of_the_next() {
        let bodies = Bodies::new(42, 100);
        let next = Stamp {
            sequence: STAMP.sequence + 1,
            ..STAMP
        };
        let mut other = Vec::new();
        bodies.write(&next, &mut other);
        let mixed = [&body(&bodies)[..STAMP_BYTES], &other[STAMP_BYTES..]].concat();
        assert_eq!(bodies.read(&mixed), Err(BodyFault::Rest));
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(
            run in 0..RUN_LIMIT,
            stream in 0..STREAM_LIMIT,
            sequence in 0..1_u64 << 40,
            sent_at in 0..1_u64 << 56,
            length in STAMP_BYTES..2_000,
        ) {
            let bodies = Bodies::new(run, length);
            let stamp = Stamp { stream, sequence, sent_at };
            let mut body = Vec::new();
            bodies.write(&stamp, &mut body);
            prop_assert!(body.iter().all(u8::is_ascii_alphanumeric));
            prop_assert_eq!(bodies.read(&body), Ok(stamp));
        }
    }
}
