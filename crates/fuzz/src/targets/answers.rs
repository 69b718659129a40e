//! Whether an answer is what its content type says, whatever of a request it repeats.

use hikyaku_sqs::reply::Reply;

/// # Panics
/// If a client could not read the answer.
pub fn assert_sound(reply: &Reply) {
    let mut headers = reply.headers.iter();
    let content_type = headers.find_map(|(name, value)| (*name == "Content-Type").then_some(value));
    let is_xml = content_type.is_some_and(|value| value == "text/xml");
    let sound = match std::str::from_utf8(&reply.body) {
        Ok(text) if is_xml => is_document(text),
        // Operations without output have no body.
        Ok(text) => text.is_empty() || serde_json::from_str::<serde_json::Value>(text).is_ok(),
        Err(_) => false,
    };
    let body = reply.body.escape_ascii();
    assert!(sound, "{content_type:?} is not what this is: {body}");
    let printable = |text: &String| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    assert!(
        reply.headers.iter().all(|(_, value)| printable(value)),
        "{:?}",
        reply.headers
    );
}

/// Whether a text is one XML element, its tags in pairs and its texts escaped.
fn is_document(text: &str) -> bool {
    let mut rest = match text.strip_prefix("<?xml version=\"1.0\"?>") {
        Some(behind) => behind,
        None => text,
    };
    let mut open: Vec<&str> = Vec::new();
    let mut elements = 0;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((tag, behind)) = after.split_once('>') else {
            return false;
        };
        if !is_escaped(before) || (open.is_empty() && !before.is_empty()) {
            return false;
        }
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
            continue;
        }
        elements += usize::from(open.is_empty());
        if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
    }
    open.is_empty() && elements == 1 && rest.trim().is_empty()
}

/// Whether the text between two tags reads back as somebody's text.
fn is_escaped(text: &str) -> bool {
    let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&#xD;"];
    let known =
        |(at, _): (usize, &str)| entities.iter().any(|entity| text[at..].starts_with(entity));
    let plain = |character: char| match character {
        '\t' | '\n' => true,
        '>' | '\u{fffe}' | '\u{ffff}' => false,
        other => other >= ' ',
    };
    text.match_indices('&').all(known) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::is_document;

    #[test]
    fn tells_xml_from_what_only_looks_like_it() {
        let text = |inside: &str| format!("<?xml version=\"1.0\"?><a b=\"c\">{inside}</a>");
        for inside in [
            "",
            "x",
            "<b/>",
            "<b>&lt;&amp;&quot;</b><b>y</b>",
            "&#xD;\n\t\u{e9}",
        ] {
            assert!(is_document(&text(inside)), "{inside}");
        }
        for inside in [
            "<", "&", "&nbsp;", "<b>", "</b>", "<b></c>", "\r", "\u{1}", "a>b",
        ] {
            assert!(!is_document(&text(inside)), "{inside}");
        }
        assert!(!is_document(&format!("{}<c/>", text(""))));
        assert!(!is_document("x"));
        assert!(is_document("<a/>\n"));
    }
}
