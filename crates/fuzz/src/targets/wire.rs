//! Messages between nodes, as they come out of a connection; the first byte says which.

use bytes::Bytes;
use hikyaku_proto::{founding, node};
use prost::Message;

use super::{Seen, Target, magnitude};
use crate::memory::Bound;

/// Repeated empty messages are two bytes each and a struct of some hundred.
const MEMORY: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 512,
};

pub const MESSAGES: Target = Target {
    name: "node_messages",
    seeds,
    words: &[],
    memory: MEMORY,
    judge: || {
        Box::new(|input| {
            let Some((kind, bytes)) = input.split_first() else {
                return Seen::refused("nothing");
            };
            let kind = usize::from(*kind) % READERS.len();
            // As received: the buffer is shared with the message.
            match READERS[kind](Bytes::copy_from_slice(bytes)) {
                Ok(length) => Seen::accepted((kind, magnitude(length))),
                Err(error) => Seen::refused(&error.to_string()),
            }
        })
    },
};

/// Reads a message, and again what is written of it.
type Reader = fn(Bytes) -> Result<usize, prost::DecodeError>;

const READERS: [Reader; 9] = [
    read::<node::Requests>,
    read::<node::Answers>,
    read::<node::SnapshotChunk>,
    read::<node::SubmitRequest>,
    read::<node::SubmitResponse>,
    read::<node::StoredMembership>,
    read::<node::ControlRequest>,
    read::<founding::Standing>,
    read::<node::WatchResponse>,
];

fn read<M: Message + Default + PartialEq>(bytes: Bytes) -> Result<usize, prost::DecodeError> {
    let message = M::decode(bytes)?;
    let written = message.encode_to_vec();
    assert_eq!(written.len(), message.encoded_len());
    assert!(
        M::decode(&*written)? == message,
        "a message comes back as it was written"
    );
    Ok(written.len())
}

fn seeds() -> Vec<Vec<u8>> {
    let log_id = Some(node::LogId {
        term: 3,
        index: 70_000,
    });
    let vote = Some(node::Vote {
        term: 3,
        replica: 2,
        committed: true,
    });
    let membership = node::Membership {
        voters: vec![node::VoterSet {
            replicas: vec![1, 2, 3],
        }],
        replicas: vec![node::Replica {
            replica: 1,
            node: 7,
        }],
    };
    let data = node::entry::Payload::Data(node::Data {
        head: Bytes::from_static(b"head"),
        bodies: vec![Bytes::from_static(b"body"), Bytes::new()],
    });
    let entry = |payload| node::Entry {
        id: log_id,
        payload: Some(payload),
    };
    let append = node::Append {
        vote,
        prev: log_id,
        entries: vec![
            entry(data),
            entry(node::entry::Payload::Membership(membership.clone())),
            entry(node::entry::Payload::Blank(node::Blank {})),
        ],
        leader_commit: log_id,
        leader_time_ms: 1_700_000_000_000,
    };
    let request = |request| node::PeerRequest {
        sequence: 1,
        group: 2,
        target: 3,
        request: Some(request),
    };
    let requests = node::Requests {
        requests: vec![
            request(node::peer_request::Request::Append(append)),
            request(node::peer_request::Request::Vote(node::VoteRequest {
                vote,
                last: log_id,
                leadership_transfer: false,
                pre_vote: true,
            })),
        ],
        probe: 9,
    };
    let answers = node::Answers {
        answers: vec![node::PeerAnswer {
            sequence: 1,
            answer: Some(node::peer_answer::Answer::Failure(node::Failure {
                reason: node::failure::Reason::Crowded.into(),
                detail: "full".to_owned(),
            })),
        }],
        probe: 9,
        wall_clock_ms: 1_700_000_000_000,
    };
    let run = node::LiveRun {
        first_index: 1,
        entries: 2,
        ordinal: 0,
        count: 3,
    };
    let state = node::SnapshotChunk {
        part: Some(node::snapshot_chunk::Part::State(node::SnapshotState {
            terms: vec![node::TermStart {
                first_index: 0,
                term: 3,
            }],
            live: vec![run, run],
            state: Bytes::from_static(b"state"),
        })),
    };
    let submit = node::SubmitRequest {
        partition: 1,
        command: Bytes::from_static(b"command"),
        bodies: vec![Bytes::from_static(b"body")],
        budget_ms: 20_000,
    };
    let answer = node::SubmitResponse {
        result: Some(node::submit_response::Result::Answer(node::Answer {
            reply: Bytes::from_static(b"reply"),
            bodies: vec![Bytes::new()],
            now_ms: 5,
            sent_at_ms: vec![4, u64::MAX],
        })),
    };
    let stored = node::StoredMembership {
        log_id,
        membership: Some(membership),
    };
    let control = node::ControlRequest {
        command: Bytes::from_static(b"command"),
        budget_ms: 1,
    };
    let member = founding::Standing {
        node: 7,
        stage: Some(founding::standing::Stage::Member(founding::Cluster {
            id: Bytes::from_static(&[7; 16]),
            partitions: 32,
            founders: vec![founding::Founder {
                node: 7,
                address: "one:9325".to_owned(),
            }],
        })),
    };
    let news = node::WatchResponse {
        news: 4,
        led: vec![node::Led {
            group: 1,
            term: 3,
            now_ms: 1_700_000_000_000,
        }],
        catalogue: Some(node::CatalogueChange {
            synced: 9,
            revision: 8,
            replace_all: false,
            cluster: Bytes::from_static(b"cluster"),
            changed: vec![Bytes::from_static(b"record")],
            removed: vec![5, 6],
            tenants: vec![Bytes::from_static(b"tenant")],
            replicas: vec![node::PlacedGroup {
                group: 1,
                replicas: Bytes::from_static(b"replicas"),
            }],
        }),
    };
    let messages: [Vec<u8>; READERS.len()] = [
        requests.encode_to_vec(),
        answers.encode_to_vec(),
        state.encode_to_vec(),
        submit.encode_to_vec(),
        answer.encode_to_vec(),
        stored.encode_to_vec(),
        control.encode_to_vec(),
        member.encode_to_vec(),
        news.encode_to_vec(),
    ];
    let tagged = |(kind, message): (u8, Vec<u8>)| [vec![kind], message].concat();
    (0..).zip(messages).map(tagged).collect()
}
