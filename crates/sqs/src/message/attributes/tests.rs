use super::super::wire::WireMessage;
use super::{AttributeValue, MessageAttributes, TraceHeader, is_number};
use crate::error::{ErrorCode, SqsError};
use crate::wire::from_json;

/// The attributes of a message whose `MessageAttributes` are this JSON, as (name, type, bytes).
fn parsed(json: &str) -> Result<Vec<(String, String, Vec<u8>)>, SqsError> {
    let body = format!("{{\"MessageAttributes\":{json}}}");
    let wire: WireMessage<'_> = from_json(body.as_bytes())?;
    let attributes = MessageAttributes::parse(&wire.message_attributes)?;
    let plain = attributes.iter().map(|attribute| {
        let bytes = attribute.value.as_bytes().to_vec();
        (
            attribute.name.to_string(),
            attribute.data_type.to_string(),
            bytes,
        )
    });
    Ok(plain.collect())
}

fn refusal(json: &str) -> String {
    let error = parsed(json).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidParameterValue, "{json}");
    error.message.into_owned()
}

fn named(name: &str) -> String {
    format!(r#"{{"{name}":{{"DataType":"String","StringValue":"v"}}}}"#)
}

#[test]
fn attributes_come_sorted_by_name() {
    let attributes = parsed(
        r#"{"b":{"DataType":"Binary.png","BinaryValue":"AP8="},
            "a":{"DataType":"Number.int","StringValue":"0042"},
            "Z":{"DataType":"String","StringValue":"é"}}"#,
    )
    .unwrap();
    let expected = [
        ("Z", "String", "é".as_bytes()),
        ("a", "Number.int", b"0042"),
        ("b", "Binary.png", b"\0\xff"),
    ];
    let expected = expected.map(|(n, t, v)| (n.to_owned(), t.to_owned(), v.to_vec()));
    assert_eq!(attributes, expected);
}

#[test]
fn size_counts_names_types_and_values() {
    let body = br#"{"MessageAttributes":{"ab":{"DataType":"String","StringValue":"xyz"}}}"#;
    let wire: WireMessage<'_> = from_json(body).unwrap();
    let attributes = MessageAttributes::parse(&wire.message_attributes).unwrap();
    assert_eq!(attributes.size_bytes(), 2 + 6 + 3);
}

#[test]
fn ten_attributes_are_the_most() {
    let many = |count: usize| {
        let members = (0..count)
            .map(|n| format!(r#""a{n}":{{"DataType":"String","StringValue":"v"}}"#))
            .collect::<Vec<_>>();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(parsed(&many(10)).unwrap().len(), 10);
    assert!(
        refusal(&many(11)).contains("message attributes [11] exceeds the allowed maximum [10]")
    );
}

#[test]
fn names_may_have_letters_of_any_language() {
    let longest = "n".repeat(256);
    for name in ["øßä", "a.b-c_d", "AWSx", "aws", &longest] {
        assert!(parsed(&named(name)).is_ok(), "{name}");
    }
}

#[test]
fn bad_names_are_refused() {
    let too_long = "n".repeat(257);
    for name in [
        "", ".a", "a.", "a..b", "a b", "a/b", "aWs.x", "AMAZON.x", &too_long,
    ] {
        refusal(&named(name));
    }
}

#[test]
fn the_type_must_be_one_of_three() {
    for data_type in ["Text", "string", "Stringy", "StringList"] {
        let json = format!(r#"{{"k":{{"DataType":"{data_type}","StringValue":"v"}}}}"#);
        assert_eq!(
            refusal(&json),
            "The type of message (user) attribute 'k' is invalid. You must use only the following supported type prefixes: Binary, Number, String."
        );
    }
    refusal(r#"{"k":{"StringValue":"v"}}"#);
    refusal(r#"{"k":{"DataType":"","StringValue":"v"}}"#);
}

#[test]
fn an_empty_value_is_refused() {
    for json in [
        r#"{"k":{"DataType":"String","StringValue":""}}"#,
        r#"{"k":{"DataType":"String"}}"#,
        r#"{"k":{"DataType":"String","BinaryValue":"AA=="}}"#,
    ] {
        assert_eq!(
            refusal(json),
            "Message (user) attribute 'k' must contain a non-empty value of type 'String'."
        );
    }
    refusal(r#"{"k":{"DataType":"Binary","BinaryValue":""}}"#);
}

#[test]
fn forbidden_characters_in_a_value_are_an_invalid_parameter() {
    refusal(r#"{"k":{"DataType":"String","StringValue":"a\u0000"}}"#);
}

#[test]
fn bad_base64_does_not_parse() {
    let error = parsed(r#"{"k":{"DataType":"Binary","BinaryValue":"?"}}"#).unwrap_err();
    assert_eq!(error.code, ErrorCode::Serialization);
}

#[test]
fn numbers_must_be_numbers() {
    assert_eq!(
        refusal(r#"{"Age":{"DataType":"Number","StringValue":"Hello"}}"#),
        "Can't cast the value of message (user) attribute 'Age' to a number."
    );
}

#[test]
fn numbers_have_38_digits_and_bounded_exponents() {
    let digits_38 = "9".repeat(38);
    let trailing_zeros = format!("{}{}", "9".repeat(38), "0".repeat(88));
    for number in [
        "0",
        "-0.0",
        "1",
        "+1",
        "-17.25",
        ".5",
        "5.",
        "1e126",
        "9.9E126",
        "1e-128",
        "000123",
        "0.000",
        &digits_38,
        &trailing_zeros,
    ] {
        assert!(is_number(number), "{number}");
    }
    let digits_39 = "9".repeat(39);
    for number in [
        "",
        "-",
        ".",
        "e5",
        "1e",
        "1e127",
        "1e-129",
        "0.1e-128",
        "0x10",
        "1_000",
        " 1",
        "NaN",
        "Infinity",
        "1e99999999999",
        "--1",
        &digits_39,
    ] {
        assert!(!is_number(number), "{number}");
    }
}

fn trace(json: &str) -> Result<Option<String>, SqsError> {
    let body = format!("{{\"MessageSystemAttributes\":{json}}}");
    let wire: WireMessage<'_> = from_json(body.as_bytes())?;
    let trace = TraceHeader::parse(&wire.message_system_attributes)?;
    Ok(trace.map(|trace| trace.as_str().to_owned()))
}

#[test]
fn the_trace_header_is_the_only_system_attribute_to_set() {
    let set = r#"{"AWSTraceHeader":{"DataType":"String","StringValue":"Root=1"}}"#;
    assert_eq!(trace(set).unwrap().as_deref(), Some("Root=1"));
    assert_eq!(trace("{}").unwrap(), None);
    for refused in [
        r#"{"SenderId":{"DataType":"String","StringValue":"x"}}"#,
        r#"{"AWSTraceHeader":{"DataType":"Number","StringValue":"1"}}"#,
        r#"{"AWSTraceHeader":{"DataType":"String","StringValue":""}}"#,
    ] {
        assert_eq!(
            trace(refused).unwrap_err().code,
            ErrorCode::InvalidParameterValue
        );
    }
}

#[test]
fn an_attribute_name_never_occurs_twice() {
    let attribute = super::MessageAttribute {
        name: "k".into(),
        data_type: "String".into(),
        value: AttributeValue::Text("v".into()),
    };
    assert!(MessageAttributes::try_new(vec![attribute.clone(), attribute]).is_none());
}
