//! What a signature covers of a request besides its body, as it came.

use super::refusal::Refusal;

/// The head of a request, as it came over the wire: nothing decoded, nothing merged.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a str,
    /// The path, still encoded.
    pub path: &'a str,
    /// What follows the first `?` of the target, still encoded; none if there is no `?`.
    pub query: Option<&'a str>,
    /// The headers, names in any case, one that was given twice listed twice.
    pub headers: &'a [(&'a str, &'a [u8])],
}

impl<'a> RequestHead<'a> {
    /// The value of a header that may be given once; its name in lower case.
    pub(super) fn only(&self, name: &str) -> Result<Option<&'a [u8]>, Refusal> {
        let mut values = self
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value);
        let first = values.next();
        match values.next() {
            Some(_) => Err(Refusal::DuplicateHeader(name.to_owned())),
            None => Ok(first),
        }
    }

    /// The same as text.
    pub(super) fn only_text(&self, name: &'static str) -> Result<Option<&'a str>, Refusal> {
        self.only(name)?
            .map(|value| std::str::from_utf8(value).map_err(|_| Refusal::Malformed(name)))
            .transpose()
    }

    /// Whether there is a header of this name, given in lower case.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        names.any(|other| other.eq_ignore_ascii_case(name))
    }
}
