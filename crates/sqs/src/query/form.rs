//! The parameters of a request: form-encoded in its URL, its body or both.

use std::borrow::Cow;

use crate::action::Action;
use crate::error::{ErrorCode, SqsError};

/// The most parameters of a request; ten messages with ten attributes each have some four hundred.
const MAX_PARAMETERS: usize = 2_048;

/// The parameters of a request, sorted by name, each name once.
///
/// Sorted so that what belongs to one list entry stands together: all names that begin with
/// `Attribute.1.` are neighbours.
#[derive(Debug)]
pub struct Form<'a>(Vec<Parameter<'a>>);

/// One parameter; name and value are borrowed unless they held escapes.
#[derive(Debug)]
pub(super) struct Parameter<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) value: Cow<'a, str>,
}

impl<'a> Form<'a> {
    /// Reads the parameters of a URL's query and of a body; a name given twice has one value.
    pub fn parse(query: &'a str, body: &'a [u8]) -> Result<Self, SqsError> {
        let mut parameters = Vec::new();
        let pairs = [query.as_bytes(), body].into_iter();
        let pairs = pairs.flat_map(|form| form.split(|byte| *byte == b'&'));
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            if parameters.len() == MAX_PARAMETERS {
                let message = format!("The request has more than {MAX_PARAMETERS} parameters.");
                return Err(SqsError::new(ErrorCode::InvalidParameterValue, message));
            }
            parameters.push(parse_pair(pair)?);
        }
        parameters.sort_by(|one, other| one.name.cmp(&other.name));
        for pair in parameters.windows(2) {
            if pair[0].name == pair[1].name && pair[0].value != pair[1].value {
                let message = format!(
                    "The parameter {} is given twice, with different values.",
                    pair[0].name
                );
                return Err(SqsError::new(ErrorCode::InvalidParameterValue, message));
            }
        }
        parameters.dedup_by(|one, other| one.name == other.name);
        Ok(Self(parameters))
    }

    /// Whether the form asks for the operation of this name.
    #[must_use]
    pub fn names_action(&self, name: &str) -> bool {
        self.get("Action") == Some(name)
    }

    /// The operation asked for, at the endpoint with this path.
    ///
    /// A queue's path is no endpoint for what is about no queue; `GetQueueUrl` is taken there.
    pub fn action(&self, path: &str) -> Result<Action, SqsError> {
        let Some(name) = self.get("Action") else {
            let text = "The request names no action.";
            return Err(SqsError::new(ErrorCode::UnknownOperation, text));
        };
        let of_account =
            |action: &Action| matches!(action, Action::CreateQueue | Action::ListQueues);
        let on_queue = !path.trim_matches('/').is_empty();
        Action::from_name(name)
            .filter(|action| !(on_queue && of_account(action)))
            .ok_or_else(|| SqsError::invalid_action(name))
    }

    pub(super) fn parameters(&self) -> &[Parameter<'a>] {
        &self.0
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .0
            .binary_search_by(|parameter| (*parameter.name).cmp(name));
        found.ok().map(|position| &*self.0[position].value)
    }
}

fn parse_pair(pair: &[u8]) -> Result<Parameter<'_>, SqsError> {
    let equals = pair.iter().position(|byte| *byte == b'=');
    let (name, value) = match equals {
        Some(equals) => (&pair[..equals], &pair[equals + 1..]),
        None => (pair, [].as_slice()),
    };
    let unreadable = |what: &str| {
        let message = format!("The {what} is not valid UTF-8.");
        SqsError::new(ErrorCode::InvalidParameterValue, message)
    };
    let name = decode(name).ok_or_else(|| unreadable("name of a parameter"))?;
    let value = decode(value).ok_or_else(|| unreadable(&format!("value of parameter {name}")))?;
    Ok(Parameter { name, value })
}

/// The text that a form-encoded one stands for: `+` is a space, `%` and two hex digits a byte, and a
/// `%` before anything else itself.
fn decode(encoded: &[u8]) -> Option<Cow<'_, str>> {
    if !encoded.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return std::str::from_utf8(encoded).ok().map(Cow::Borrowed);
    }
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'+', _) => decoded.push(b' '),
            (b'%', [high, low, after @ ..]) => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => {
                    decoded.push(high << 4 | low);
                    rest = after;
                }
                _ => decoded.push(b'%'),
            },
            _ => decoded.push(*byte),
        }
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{Action, ErrorCode, Form, decode};

    #[test]
    fn texts_are_decoded() {
        for (encoded, text) in [
            ("plain", "plain"),
            ("a+b%20c", "a b c"),
            ("%2b%2B", "++"),
            ("%C3%A9", "é"),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("", ""),
        ] {
            assert_eq!(decode(encoded.as_bytes()).as_deref(), Some(text));
        }
        assert!(matches!(decode(b"plain"), Some(Cow::Borrowed("plain"))));
        assert_eq!(decode(b"%ff"), None);
        assert_eq!(decode(b"\xff"), None);
    }

    #[test]
    fn parameters_come_from_the_url_and_the_body() {
        let form = Form::parse(
            "Action=SendMessage&&=",
            b"MessageBody=a%26b&Flag&Action=SendMessage",
        );
        let form = form.unwrap();
        assert_eq!(form.get("MessageBody"), Some("a&b"));
        assert_eq!(form.get("Flag"), Some(""));
        assert_eq!(form.get("Body"), None);
        assert_eq!(form.action("/").unwrap(), Action::SendMessage);
    }

    #[test]
    fn what_is_ambiguous_or_too_much_is_refused() {
        let many = "a&".repeat(2_049);
        for body in [b"a=1&a=2".as_slice(), b"a=%ff", b"%ff=a", many.as_bytes()] {
            let error = Form::parse("", body).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidParameterValue);
        }
        assert!(Form::parse("", &many.as_bytes()[2..]).is_ok());
    }

    #[test]
    fn an_action_is_known_at_its_endpoint() {
        let queue = "/000000000000/orders";
        for (query, path, expected) in [
            ("Action=ListQueues", "/", Ok(Action::ListQueues)),
            ("Action=ListQueues", queue, Err(ErrorCode::InvalidAction)),
            ("Action=CreateQueue", queue, Err(ErrorCode::InvalidAction)),
            ("Action=GetQueueUrl", queue, Ok(Action::GetQueueUrl)),
            ("Action=FooBar", "/", Err(ErrorCode::InvalidAction)),
            ("", queue, Err(ErrorCode::UnknownOperation)),
        ] {
            let form = Form::parse(query, b"").unwrap();
            let action = form.action(path).map_err(|error| error.code);
            assert_eq!(action, expected, "{query} {path}");
        }
    }
}
