//! Requests and answers in the JSON dialect.

use serde_json::{Value, json};

use super::model::{Members, Type, model};
use super::said::Said;
use crate::harness::Answer;

const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// A request: what is asked and where, headers to come.
pub fn request(action: &str, path: &str) -> http::request::Builder {
    http::Request::post(path)
        .header("Content-Type", CONTENT_TYPE)
        .header("X-Amz-Target", format!("AmazonSQS.{action}"))
}

/// Refuses members that the model does not have, at any depth.
pub fn check_names(members: &Members, value: &Value) -> Result<(), String> {
    let Value::Object(object) = value else {
        return Err(format!("no object of members: {value}"));
    };
    for (name, value) in object {
        let Some(of) = members.get(name) else {
            return Err(format!("the model has no member {name}"));
        };
        check_type(of, value).map_err(|fault| format!("{name}: {fault}"))?;
    }
    Ok(())
}

fn check_type(of: &Type, value: &Value) -> Result<(), String> {
    match (of, value) {
        (Type::String | Type::Blob, Value::String(_))
        // Numbers may also be asked for as texts.
        | (Type::Integer, Value::Number(_) | Value::String(_))
        | (Type::Boolean, Value::Bool(_)) => Ok(()),
        (Type::List { of, .. }, Value::Array(items)) => {
            items.iter().try_for_each(|item| check_type(of, item))
        }
        (Type::Map { of, .. }, Value::Object(entries)) => {
            entries.values().try_for_each(|value| check_type(of, value))
        }
        (Type::Structure(name), value) => check_names(model().structure(name), value),
        (of, value) => Err(format!("{value} is no {of:?}")),
    }
}

/// What an answer says. Everything about it that is the same for all answers is checked.
pub fn read(action: &str, answer: &Answer) -> Result<Said, String> {
    super::said::header(answer, "content-type", CONTENT_TYPE)?;
    let length = answer.body.len().to_string();
    super::said::header(answer, "content-length", &length)?;
    if answer.status == 200 {
        if answer.headers.contains_key("x-amzn-query-error") {
            return Err("a success has the header of an error".to_owned());
        }
        if answer.body.is_empty() {
            return Ok(Said::NoOutput);
        }
        let output = parse(&answer.body)?;
        check_names(&model().operation(action).output, &output)?;
        return Ok(Said::Output(output));
    }
    let body = parse(&answer.body)?;
    let shape = body["__type"]
        .as_str()
        .and_then(|name| name.split('#').nth(1));
    let shape = shape.ok_or_else(|| format!("an error of no type: {body}"))?;
    let names = model().error(shape);
    let message = body["message"].as_str().unwrap_or_default();
    let qualified = format!("{}#{shape}", names.namespace);
    if body != json!({ "__type": qualified, "message": message }) {
        return Err(format!("an error of another form: {body}"));
    }
    if answer.status != names.status {
        return Err(format!("{shape} with the status {}", answer.status));
    }
    let code = format!("{};Sender", names.query_code);
    super::said::header(answer, "x-amzn-query-error", &code)?;
    Ok(Said::Error {
        shape: shape.to_owned(),
        message: message.to_owned(),
    })
}

fn parse(body: &str) -> Result<Value, String> {
    serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))
}
