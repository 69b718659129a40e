//! Whatever a form holds is answered; what it is made of comes back.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::query::Form;
use hikyaku_sqs::request::{Envelope, Request};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Pieces of which names of parameters are made, and some that look like it.
const SEGMENTS: [&str; 18] = [
    "QueueUrl",
    "QueueName",
    "Attribute",
    "AttributeName",
    "MessageAttribute",
    "MessageSystemAttribute",
    "SendMessageBatchRequestEntry",
    "DeleteMessageBatchRequestEntry",
    "Tag",
    "TagKey",
    "Name",
    "Value",
    "Key",
    "Id",
    "1",
    "2",
    "é",
    "",
];

fn read(action: Action, form: &[u8]) {
    if let Ok(form) = Form::parse("", form) {
        let _ = form.action("/");
        let _ = Request::from_query(action, &form, Envelope::default());
    }
}

fn any_action() -> impl Strategy<Value = Action> {
    prop::sample::select(Action::ALL.to_vec())
}

/// Every byte escaped that is not a letter or digit.
fn encode(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    text.bytes().map(escaped).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn noise_is_answered(action in any_action(), form in vec(any::<u8>(), 0..100)) {
        read(action, &form);
    }

    #[test]
    fn names_put_together_at_random_are_answered(
        action in any_action(),
        names in vec(vec(prop::sample::select(SEGMENTS.to_vec()), 1..6), 0..20),
        separators in vec(prop::sample::select(vec![".", "-", "..", "%2e"]), 20),
    ) {
        let parameters = names.iter().zip(&separators).map(|(name, separator)| {
            format!("{}={}&", name.join(separator), name.len())
        });
        read(action, parameters.collect::<String>().as_bytes());
    }

    #[test]
    fn maps_and_lists_come_back(
        tags in btree_map("\\PC{1,20}", "\\PC{0,20}", 1..12),
        keys in vec("\\PC{1,20}", 1..12),
    ) {
        let numbered = tags.iter().zip(1..);
        let form: String = numbered
            .map(|((key, value), n)| {
                format!("&Tag.{n}.Value={}&Tag.{n}.Key={}", encode(value), encode(key))
            })
            .collect();
        let form = format!("QueueUrl=q{form}");
        let form = Form::parse("", form.as_bytes()).unwrap();
        let request = Request::from_query(Action::TagQueue, &form, Envelope::default());
        let Ok(Request::TagQueue(request)) = request else {
            panic!("{request:?}")
        };
        prop_assert_eq!(request.check().unwrap().into_map(), tags);

        let numbered = keys.iter().zip(1..);
        let form: String = numbered.map(|(key, n)| format!("&TagKey.{n}={}", encode(key))).collect();
        let form = format!("QueueUrl=q{form}");
        let form = Form::parse("", form.as_bytes()).unwrap();
        let request = Request::from_query(Action::UntagQueue, &form, Envelope::default());
        let Ok(Request::UntagQueue(request)) = request else {
            panic!("{request:?}")
        };
        let expected = keys.into_iter().collect();
        prop_assert_eq!(request.check().unwrap(), expected);
    }
}
