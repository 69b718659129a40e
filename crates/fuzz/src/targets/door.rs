//! What clients hold and what is kept of their messages.

use std::collections::BTreeMap;

use hikyaku_queue::{
    HandleKey, HandleSealer, InvalidHandle, Name, PartitionId, QueueId, ReceiptHandle,
};
use hikyaku_sqs::message::attributes::{AttributeValue, MessageAttribute, MessageAttributes};
use hikyaku_sqs::message::md5::md5_of_attributes;
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};

use super::{Seen, Target, magnitude};
use crate::memory::Bound;

/// Only what was sealed opens.
pub const RECEIPT_HANDLES: Target = Target {
    name: "receipt_handles",
    seeds: || sealed().into_keys().map(String::into_bytes).collect(),
    words: &[
        "AQEB", "AQEC", "AQED", "AAAA", "=", "==", "+", "/", "-", "_",
    ],
    memory: Bound {
        fixed: 4 << 10,
        per_byte: 4,
    },
    judge: || {
        let (sealer, sealed) = (sealer(), sealed());
        Box::new(move |input| {
            let Ok(text) = std::str::from_utf8(input) else {
                return Seen::refused("not UTF-8");
            };
            match sealer.open(text) {
                Ok(handle) => {
                    let own = sealed.get(text);
                    assert_eq!(own, Some(&handle), "a handle that nobody sealed was opened");
                    Seen::accepted(handle.receive_number)
                }
                // The key's number and the length are all that a refusal may depend on.
                Err(error @ InvalidHandle) => Seen::refused(&error.to_string()),
            }
        })
    },
};

fn key(id: u8) -> HandleKey {
    let secret = [id; 64];
    HandleKey { id, secret }
}

/// During a rotation: the second key seals and both open.
fn sealer() -> HandleSealer {
    HandleSealer::new(key(2), Some(key(1)))
}

/// Handles by their texts, under both keys.
fn sealed() -> BTreeMap<String, ReceiptHandle> {
    let handle = |number: u32| ReceiptHandle {
        partition: PartitionId(number),
        queue: QueueId(300),
        name: Name {
            index: u64::MAX >> number,
            ordinal: number,
        },
        receive_number: number,
        received_at: 1_700_000_000_000,
        deadline: 1_700_000_030_000,
    };
    let sealers = [sealer(), HandleSealer::new(key(1), None)];
    let of = |sealer: &HandleSealer| {
        let sealed = |number| (sealer.seal(&handle(number)), handle(number));
        (0..8).map(sealed).collect::<Vec<_>>()
    };
    sealers.iter().flat_map(of).collect()
}

/// What is read of a stored message is what is written of it again.
pub const STORED_MESSAGES: Target = Target {
    name: "stored_messages",
    seeds: stored_messages,
    words: &["String", "Number.int", "Binary", "name", "\u{e9}"],
    memory: Bound {
        fixed: 8 << 10,
        per_byte: 16,
    },
    judge: || {
        Box::new(|input| match StoredMessage::decode(input) {
            Ok(stored) => {
                let written = stored.encode();
                assert_eq!(written.len(), stored.encoded_len());
                assert_eq!(StoredMessage::decode(&written).as_ref(), Ok(&stored));
                let digest = md5_of_attributes(stored.attributes.iter());
                assert_eq!(digest.is_some(), !stored.attributes.is_empty());
                Seen::accepted((input[17], stored.attributes.len(), magnitude(input.len())))
            }
            Err(error) => Seen::refused(&error.to_string()),
        })
    },
};

fn stored_messages() -> Vec<Vec<u8>> {
    let text = |name: &'static str, value: &'static str| MessageAttribute {
        name: name.into(),
        data_type: "String".into(),
        value: AttributeValue::Text(value.into()),
    };
    let binary = MessageAttribute {
        name: "b".into(),
        data_type: "Binary.png".into(),
        value: AttributeValue::Binary(vec![0, 255, 7].into()),
    };
    let attributes = |some: &[MessageAttribute<'static>]| {
        MessageAttributes::try_new(some.to_vec()).expect("names are distinct")
    };
    let plain = StoredMessage {
        id: MessageId([9; 16]),
        sender_id: "000000000000".into(),
        message_group: None,
        deduplication_id: None,
        trace_header: None,
        body: "hello".into(),
        attributes: attributes(&[]),
    };
    let full = StoredMessage {
        message_group: Some("group".into()),
        deduplication_id: Some("id".into()),
        trace_header: Some("Root=1-2-3".into()),
        attributes: attributes(&[text("a", "x"), binary.clone(), text("c.d", "\u{e9}")]),
        ..plain.clone()
    };
    let attributed = StoredMessage {
        body: "".into(),
        attributes: attributes(&[binary]),
        ..plain.clone()
    };
    [plain, full, attributed]
        .map(|message| message.encode())
        .to_vec()
}
