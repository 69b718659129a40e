//! Changes to bytes, by somebody who knows a little of what they mean.

use crate::random::Random;

/// The longest input, in bytes: room for lists beyond every limit, and quick to read.
pub const LONGEST: usize = 16 << 10;

/// How much of an input one change copies, cuts or repeats at most, but for one time in sixteen.
const USUAL_SPAN: usize = 64;

/// Numbers at the ends of ranges.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 48,
    i64::MAX as u64,
    u64::MAX,
];

/// Numbers in digits, at the ends of ranges and where readers disagree.
const DIGITS: [&str; 12] = [
    "0",
    "-1",
    "00",
    "1e9",
    "12",
    "1.5",
    "1001",
    "43201",
    "2147483648",
    "4294967296",
    "9223372036854775808",
    "99999999999999999999999999999999999999999",
];

/// Changes some of an input's places: one mostly, up to eight.
///
/// `other` is an input of the same target, and `words` are pieces that inputs are made of.
pub fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8], words: &[&str]) {
    let changes = 1 + (random.next() & 7).count_ones() as usize * random.below(3);
    for _ in 0..changes {
        change(random, bytes, other, words);
    }
    bytes.truncate(LONGEST);
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8], words: &[&str]) {
    match random.below(16) {
        0 => flip(random, bytes),
        1 | 2 => replace_byte(random, bytes),
        3 => {
            let byte = random.byte();
            insert(random, bytes, &[byte]);
        }
        4 => drop(bytes.drain(span(random, bytes.len()))),
        5 => {
            let piece = bytes[span(random, bytes.len())].to_vec();
            insert(random, bytes, &piece);
        }
        6 => repeat(random, bytes),
        7 | 8 => word(random, bytes, words, insert),
        9 | 10 => word(random, bytes, words, overwrite),
        11 => {
            let piece = &other[span(random, other.len())];
            insert(random, bytes, piece);
        }
        12 => {
            let head = random.below(bytes.len() + 1);
            let tail = random.below(other.len() + 1);
            bytes.truncate(head);
            bytes.extend_from_slice(&other[tail..]);
        }
        13 => put_number(random, bytes),
        14 => put_digits(random, bytes),
        _ => bytes.truncate(random.below(bytes.len() + 1)),
    }
}

/// A part of so many bytes; perhaps none of them.
fn span(random: &mut Random, length: usize) -> std::ops::Range<usize> {
    if length == 0 {
        return 0..0;
    }
    let from = random.below(length);
    let most = length - from;
    let usual = if random.one_in(16) {
        most
    } else {
        most.min(USUAL_SPAN)
    };
    from..from + random.below(usual + 1)
}

fn flip(random: &mut Random, bytes: &mut [u8]) {
    if !bytes.is_empty() {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
}

fn replace_byte(random: &mut Random, bytes: &mut [u8]) {
    if !bytes.is_empty() {
        let at = random.below(bytes.len());
        // Half of the time something that texts are made of.
        bytes[at] = match random.byte() {
            byte if byte < 0x80 => b' ' + byte % 95,
            byte => byte.wrapping_add(random.byte()),
        };
    }
}

fn insert(random: &mut Random, bytes: &mut Vec<u8>, piece: &[u8]) {
    let at = random.below(bytes.len() + 1);
    bytes.splice(at..at, piece.iter().copied());
}

fn overwrite(random: &mut Random, bytes: &mut Vec<u8>, piece: &[u8]) {
    let at = random.below(bytes.len() + 1);
    let end = bytes.len().min(at + piece.len());
    bytes.splice(at..end, piece.iter().copied());
}

fn word(
    random: &mut Random,
    bytes: &mut Vec<u8>,
    words: &[&str],
    put: fn(&mut Random, &mut Vec<u8>, &[u8]),
) {
    if words.is_empty() {
        flip(random, bytes);
    } else {
        let word = random.pick(words).as_bytes();
        put(random, bytes, word);
    }
}

/// Makes a list of one thing: up to two thousand times the same piece.
fn repeat(random: &mut Random, bytes: &mut Vec<u8>) {
    let piece = bytes[span(random, bytes.len())].to_vec();
    let times = if random.one_in(8) { 2_000 } else { 12 };
    let times = random.below(times).min(LONGEST / piece.len().max(1));
    insert(random, bytes, &piece.repeat(times));
}

/// Writes a number as binary encodings do: little-endian in some width, or as a varint.
fn put_number(random: &mut Random, bytes: &mut Vec<u8>) {
    let number = random
        .pick(&NUMBERS)
        .wrapping_add(random.next() % 3)
        .wrapping_sub(1);
    let width = *random.pick(&[1, 2, 4, 8]);
    if random.one_in(2) {
        overwrite(random, bytes, &number.to_le_bytes()[..width]);
        return;
    }
    let mut varint = Vec::new();
    let mut rest = number;
    while rest >= 0x80 {
        varint.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    varint.push(rest as u8);
    // In the place of one byte: the number that was there was most likely a small one.
    let at = random.below(bytes.len() + 1);
    let end = bytes.len().min(at + 1);
    bytes.splice(at..end, varint);
}

/// Writes a number in digits in the place of another.
fn put_digits(random: &mut Random, bytes: &mut Vec<u8>) {
    let from = random.below(bytes.len() + 1);
    let found = bytes[from..].iter().position(u8::is_ascii_digit);
    let Some(at) = found.map(|offset| from + offset) else {
        return flip(random, bytes);
    };
    let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let end = at + digits.count();
    bytes.splice(at..end, random.pick(&DIGITS).bytes());
}
