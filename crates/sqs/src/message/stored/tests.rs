use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::{
    AttributeValue, DecodeError, MessageAttribute, MessageAttributes, MessageId, StoredMessage,
};

fn sample() -> StoredMessage<'static> {
    let attributes = vec![
        MessageAttribute {
            name: "b".into(),
            data_type: "Binary".into(),
            value: AttributeValue::Binary(b"\0\xff".as_slice().into()),
        },
        MessageAttribute {
            name: "a".into(),
            data_type: "Number".into(),
            value: AttributeValue::Text("7".into()),
        },
    ];
    StoredMessage {
        id: MessageId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        sender_id: "AKIA".into(),
        message_group: Some("g".into()),
        deduplication_id: None,
        trace_header: Some("Root=1".into()),
        body: "héllo".into(),
        attributes: MessageAttributes::try_new(attributes).unwrap(),
    }
}

/// What version 1 wrote for `sample`, for ever.
const SAMPLE_V1: &[u8] = b"\x01\
    \x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\
    \x05\
    \x04\x00\x00\x00AKIA\
    \x01\x00\x00\x00g\
    \x06\x00\x00\x00Root=1\
    \x02\
    \x01\x00\x00\x00a\x06\x00\x00\x00Number\x01\x01\x00\x00\x007\
    \x01\x00\x00\x00b\x06\x00\x00\x00Binary\x02\x02\x00\x00\x00\x00\xff\
    \x06\x00\x00\x00h\xc3\xa9llo";

#[test]
fn version_1_is_these_bytes() {
    assert_eq!(sample().encode(), SAMPLE_V1);
    assert_eq!(StoredMessage::decode(SAMPLE_V1).unwrap(), sample());
}

#[test]
fn decoding_borrows_the_body() {
    let message = StoredMessage::decode(SAMPLE_V1).unwrap();
    assert!(matches!(message.body, std::borrow::Cow::Borrowed("héllo")));
}

#[test]
fn every_shorter_text_is_truncated() {
    for length in 0..SAMPLE_V1.len() {
        let error = StoredMessage::decode(&SAMPLE_V1[..length]).unwrap_err();
        assert_eq!(error, DecodeError::Truncated, "{length}");
    }
}

#[test]
fn bytes_of_no_version_are_refused() {
    let mut bytes = SAMPLE_V1.to_vec();
    bytes.push(0);
    assert_eq!(
        StoredMessage::decode(&bytes).unwrap_err(),
        DecodeError::TooLong(1)
    );
    let mut later = SAMPLE_V1.to_vec();
    later[0] = 2;
    assert_eq!(
        StoredMessage::decode(&later).unwrap_err(),
        DecodeError::UnknownVersion(2)
    );
    let mut flagged = SAMPLE_V1.to_vec();
    flagged[17] = 0x80;
    assert_eq!(
        StoredMessage::decode(&flagged).unwrap_err(),
        DecodeError::UnknownTag(0x80)
    );
}

#[test]
fn an_id_is_shown_as_a_uuid() {
    assert_eq!(
        sample().id.to_string(),
        "01020304-0506-0708-090a-0b0c0d0e0f10"
    );
}

fn any_value() -> impl Strategy<Value = AttributeValue<'static>> {
    prop_oneof![
        ".{0,20}".prop_map(|text| AttributeValue::Text(text.into())),
        vec(any::<u8>(), 0..20).prop_map(|bytes| AttributeValue::Binary(bytes.into())),
    ]
}

fn any_message() -> impl Strategy<Value = StoredMessage<'static>> {
    let optional = || option::of(".{0,20}");
    (
        any::<[u8; 16]>(),
        ".{0,20}",
        (optional(), optional(), optional()),
        ".{0,200}",
        btree_map(".{0,10}", (".{0,10}", any_value()), 0..=10),
    )
        .prop_map(
            |(id, sender, (group, deduplication, trace), body, attributes)| StoredMessage {
                id: MessageId(id),
                sender_id: sender.into(),
                message_group: group.map(Into::into),
                deduplication_id: deduplication.map(Into::into),
                trace_header: trace.map(Into::into),
                body: body.into(),
                attributes: MessageAttributes::try_new(
                    attributes
                        .into_iter()
                        .map(|(name, (data_type, value))| MessageAttribute {
                            name: name.into(),
                            data_type: data_type.into(),
                            value,
                        })
                        .collect(),
                )
                .unwrap(),
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn decoding_gives_back_what_was_encoded(message in any_message()) {
        let bytes = message.encode();
        prop_assert_eq!(bytes.len(), message.encoded_len());
        prop_assert_eq!(StoredMessage::decode(&bytes).unwrap(), message);
    }

    #[test]
    fn decoding_other_bytes_only_refuses(
        position in 0..SAMPLE_V1.len(),
        byte in any::<u8>(),
        noise in vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = SAMPLE_V1.to_vec();
        bytes[position] = byte;
        let _ = StoredMessage::decode(&bytes);
        let _ = StoredMessage::decode(&noise);
    }
}
