//! As much of XML as answers have: elements, text, five entities, one namespace at the root.

/// An element with its children, or its text.
#[derive(Debug)]
pub struct Element {
    pub name: String,
    namespace: Option<String>,
    children: Vec<Element>,
    text: String,
}

const DECLARATION: &str = "<?xml version=\"1.0\"?>";

impl Element {
    /// The root of a document.
    pub fn parse(document: &str) -> Result<Self, String> {
        let fault = || format!("no document: {document}");
        let content = document.strip_prefix(DECLARATION).ok_or_else(fault)?;
        let (root, rest) = Self::read(content).ok_or_else(fault)?;
        if rest.is_empty() {
            Ok(root)
        } else {
            Err(fault())
        }
    }

    /// An element, and what comes after it.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (tag, mut rest) = text.strip_prefix('<')?.split_once('>')?;
        let (tag, empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, namespace) = match tag.split_once(" xmlns=\"") {
            Some((name, namespace)) => (name, Some(namespace.strip_suffix('"')?.to_owned())),
            None => (tag, None),
        };
        let valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let mut element = valid.then(|| Self {
            name: name.to_owned(),
            namespace,
            children: Vec::new(),
            text: String::new(),
        })?;
        if empty {
            return Some((element, rest));
        }
        let end = format!("</{name}>");
        loop {
            if let Some(after) = rest.strip_prefix(&*end) {
                return Some((element, after));
            }
            if rest.starts_with('<') {
                let (child, after) = Self::read(rest)?;
                element.children.push(child);
                rest = after;
            } else {
                let length = rest.find('<')?;
                element.text.push_str(&unescape(&rest[..length])?);
                rest = &rest[length..];
            }
        }
    }

    /// Refuses a root of another namespace.
    pub fn is_root_in(&self, namespace: &str) -> Result<(), String> {
        match &self.namespace {
            Some(found) if found == namespace => Ok(()),
            found => Err(format!("the namespace is {found:?}")),
        }
    }

    /// The children, which have exactly these names, if the element has this one.
    pub fn named<const N: usize>(
        &self,
        name: &str,
        children: [&str; N],
    ) -> Result<[&Self; N], String> {
        let found: Vec<&str> = self.children()?.iter().map(|child| &*child.name).collect();
        if self.name != name || found != children {
            return Err(format!(
                "{} with {found:?}, not {name} with {children:?}",
                self.name
            ));
        }
        Ok(std::array::from_fn(|index| &self.children[index]))
    }

    pub fn children(&self) -> Result<&[Self], String> {
        if self.text.is_empty() {
            return Ok(&self.children);
        }
        Err(format!(
            "text in {} beside elements: {}",
            self.name, self.text
        ))
    }

    pub fn text(&self) -> Result<&str, String> {
        if self.children.is_empty() {
            return Ok(&self.text);
        }
        Err(format!("elements in {}", self.name))
    }
}

/// The text of a text node, with its ends of lines as a reader of XML has them. A character that has
/// to be written as an entity and is not makes it none.
fn unescape(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['&', '"', '>', '\r']) {
        plain.push_str(&rest[..at]);
        let (entity, after) = rest[at..].strip_prefix('&')?.split_once(';')?;
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#xD" => '\r',
            _ => return None,
        });
        rest = after;
    }
    plain.push_str(rest);
    Some(plain)
}
