//! Patterns with wildcards: `*` for any text, none included, `?` for one character.

/// Whether a text is what a pattern describes, from its beginning to its end.
///
/// The last `*` met is remembered and made longer when what follows it does not fit: time is the
/// product of both lengths at the most, and no pattern makes it worse.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                position += character(text, position);
            }
            Some(byte) if *byte == text[position] => {
                at += 1;
                position += 1;
            }
            Some(_) | None => match star {
                Some((from, taken)) => {
                    star = Some((from, taken + 1));
                    at = from + 1;
                    position = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How many bytes the character takes that begins here.
fn character(text: &[u8], position: usize) -> usize {
    let following = text[position + 1..].iter();
    1 + following.take_while(|byte| **byte & 0xc0 == 0x80).count()
}

/// Whether an ARN is what a pattern describes: each of its six parts is compared alone, so that no
/// wildcard reaches past a colon but in the last one.
pub(super) fn matches_arn(pattern: &str, arn: &str) -> bool {
    let parts = |text| str::splitn(text, 6, ':').collect::<Vec<_>>();
    let (patterns, parts) = (parts(pattern), parts(arn));
    patterns.len() == parts.len()
        && patterns
            .iter()
            .zip(&parts)
            .all(|(pattern, part)| matches(pattern, part))
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_arn};

    #[test]
    fn wildcards_stand_for_any_text_and_for_one_character() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "orders"),
            ("o*s", "os"),
            ("o*r*s", "orders"),
            ("?rder?", "orders"),
            ("*ab", "aab"),
            ("a*b*c", "a-b-b-c"),
            ("?", "é"),
            ("??", "aé"),
            ("**", "x"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "x"),
            ("?", ""),
            ("orders", "order"),
            ("order", "orders"),
            ("o*s", "order"),
            ("*ab", "aba"),
            ("??", "é"),
            ("Orders", "orders"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn wildcards_of_an_arn_stay_in_their_part() {
        let arn = "arn:aws:iam::111111111111:user/reader";
        for pattern in [
            arn,
            "arn:aws:iam::111111111111:*",
            "arn:*:*:*:*:user/*",
            "arn:aws:iam::1111?1111111:user/reader",
        ] {
            assert!(matches_arn(pattern, arn), "{pattern}");
        }
        for pattern in [
            "*",
            "arn:*",
            "arn:aws:iam:*:user/reader",
            "arn:aws:sqs::*:*",
        ] {
            assert!(!matches_arn(pattern, arn), "{pattern}");
        }
    }
}
