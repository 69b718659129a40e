//! Requests and answers in the Query dialect: forms, and XML.

use serde_json::{Map, Number, Value};

use super::model::{Members, Type, model};
use super::said::Said;
use super::xml::Element;
use crate::harness::Answer;

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const NAMESPACE: &str = "http://queue.amazonaws.com/doc/2012-11-05/";

/// A request: what is asked and where, headers to come.
pub fn request(path: &str) -> http::request::Builder {
    http::Request::post(path).header("Content-Type", FORM)
}

/// The form of a request.
pub fn form(action: &str, members: &Value) -> String {
    let mut form = format!("Action={action}&Version=2012-11-05");
    put_members("", &model().operation(action).input, members, &mut form);
    form
}

fn put_members(prefix: &str, shapes: &Members, members: &Value, form: &mut String) {
    for (name, value) in members.as_object().unwrap() {
        let of = &shapes[name];
        let name = format!("{prefix}{}", of.query_name(name));
        put(&name, of, value, form);
    }
}

fn put(name: &str, of: &Type, value: &Value, form: &mut String) {
    match (of, value) {
        (Type::List { of, .. }, Value::Array(items)) => {
            for (index, item) in (1..).zip(items) {
                put(&format!("{name}.{index}"), of, item, form);
            }
        }
        (Type::Map { key, value, of, .. }, Value::Object(entries)) => {
            for (index, (entry, content)) in (1..).zip(entries) {
                let text = Value::String(entry.clone());
                put(&format!("{name}.{index}.{key}"), &Type::String, &text, form);
                put(&format!("{name}.{index}.{value}"), of, content, form);
            }
        }
        (Type::Structure(structure), value) => {
            let prefix = format!("{name}.");
            put_members(&prefix, model().structure(structure), value, form);
        }
        (_, Value::String(text)) => put_pair(name, text, form),
        (_, other) => put_pair(name, &other.to_string(), form),
    }
}

fn put_pair(name: &str, text: &str, form: &mut String) {
    form.push('&');
    form.push_str(name);
    form.push('=');
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                form.push(char::from(byte));
            }
            other => form.push_str(&format!("%{other:02X}")),
        }
    }
}

/// What an answer says. Everything about it that is the same for all answers is checked.
pub fn read(action: &str, answer: &Answer) -> Result<Said, String> {
    super::said::header(answer, "content-type", "text/xml")?;
    super::said::header(answer, "content-length", &answer.body.len().to_string())?;
    if answer.headers.contains_key("x-amzn-query-error") {
        return Err("XML has the header of the other dialect".to_owned());
    }
    let document = Element::parse(&answer.body)?;
    document.is_root_in(NAMESPACE)?;
    let request_id = answer.headers["x-amzn-requestid"].to_str().unwrap();
    if answer.status == 200 {
        return read_success(action, &document, request_id);
    }
    let [error, id] = document.named("ErrorResponse", ["Error", "RequestId"])?;
    is_text(id, request_id)?;
    let [kind, code, message, detail] =
        error.named("Error", ["Type", "Code", "Message", "Detail"])?;
    is_text(kind, "Sender")?;
    is_text(detail, "")?;
    let code = code.text()?;
    let mut errors = model().errors.iter();
    let (shape, names) = errors
        .find(|(_, names)| names.query_code == code)
        .ok_or_else(|| format!("the model has no error with the code {code}"))?;
    if answer.status != names.status {
        return Err(format!("{shape} with the status {}", answer.status));
    }
    Ok(Said::Error {
        shape: shape.clone(),
        message: message.text()?.to_owned(),
    })
}

fn read_success(action: &str, document: &Element, request_id: &str) -> Result<Said, String> {
    let root = format!("{action}Response");
    let output = &model().operation(action).output;
    let (said, metadata) = if output.is_empty() {
        let [metadata] = document.named(&root, ["ResponseMetadata"])?;
        (Said::NoOutput, metadata)
    } else {
        let result = format!("{action}Result");
        let [result, metadata] = document.named(&root, [&result, "ResponseMetadata"])?;
        (Said::Output(read_members(output, result)?), metadata)
    };
    let [id] = metadata.named("ResponseMetadata", ["RequestId"])?;
    is_text(id, request_id)?;
    Ok(said)
}

fn is_text(element: &Element, text: &str) -> Result<(), String> {
    match element.text()? {
        found if found == text => Ok(()),
        found => Err(format!("{} is {found}, not {text}", element.name)),
    }
}

/// The members of a structure: each element is one, or an item or entry of one.
fn read_members(members: &Members, element: &Element) -> Result<Value, String> {
    let mut object = Map::new();
    for child in element.children()? {
        let mut members = members.iter();
        let found = members.find(|(name, of)| of.query_name(name) == child.name);
        let Some((name, of)) = found else {
            return Err(format!(
                "the model has no {} in {}",
                child.name, element.name
            ));
        };
        match of {
            Type::List { of, .. } => {
                let items = object
                    .entry(name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                items.as_array_mut().unwrap().push(read_value(of, child)?);
            }
            Type::Map { key, value, of, .. } => {
                let [key, value] = child.named(&child.name, [key, value])?;
                let entries = object
                    .entry(name)
                    .or_insert_with(|| Value::Object(Map::new()));
                let entries = entries.as_object_mut().unwrap();
                let before = entries.insert(key.text()?.to_owned(), read_value(of, value)?);
                if before.is_some() {
                    return Err(format!("{} has an entry twice", child.name));
                }
            }
            of => {
                if object
                    .insert(name.clone(), read_value(of, child)?)
                    .is_some()
                {
                    return Err(format!("{} stands twice", child.name));
                }
            }
        }
    }
    Ok(Value::Object(object))
}

fn read_value(of: &Type, element: &Element) -> Result<Value, String> {
    let text = || element.text();
    let wrong = || format!("{} is no {of:?}", element.name);
    match of {
        Type::String | Type::Blob => Ok(Value::String(text()?.to_owned())),
        Type::Integer => {
            let number = text()?.parse::<u64>().map_err(|_| wrong())?;
            Ok(Value::Number(Number::from(number)))
        }
        Type::Boolean => Ok(Value::Bool(text()?.parse().map_err(|_| wrong())?)),
        Type::Structure(name) => read_members(model().structure(name), element),
        Type::List { .. } | Type::Map { .. } => Err(wrong()),
    }
}
