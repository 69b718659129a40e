//! openraft's types to and from what is persisted (storage records) and sent (proto messages).
//!
//! openraft's own encodings are explicitly not stable, so nothing of it is written as it is. An
//! entry's head in the log starts with one byte that says what the entry is; votes and memberships
//! are proto messages.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use hikyaku_proto::node as wire;
use hikyaku_storage as storage;
use openraft::EntryPayload;
use prost::Message;

use crate::types::{
    CommittedLeaderId, Entry, EntryData, LeaderId, LogId, Membership, Placement, StoredMembership,
    Vote,
};

/// First byte of an entry's head in the log. Persisted; never reuse a number.
const ENTRY_BLANK: u8 = 0;
const ENTRY_DATA: u8 = 1;
const ENTRY_MEMBERSHIP: u8 = 2;

/// Something persisted or received that is not what this code writes.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("entry {index} has the unknown kind {kind}")]
    UnknownEntry { index: u64, kind: u8 },
    #[error("entry {index} has an empty head")]
    EmptyHead { index: u64 },
    #[error("membership refused: {0}")]
    Membership(String),
    #[error("cannot decode: {0}")]
    Protobuf(#[from] prost::DecodeError),
}

impl From<CodecError> for io::Error {
    fn from(error: CodecError) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

pub fn log_id_to_storage(id: &LogId) -> storage::LogId {
    storage::LogId {
        leader: storage::LeaderId {
            term: id.committed_leader_id().term,
            node: 0,
        },
        index: id.index(),
    }
}

pub fn log_id_from_storage(id: storage::LogId) -> LogId {
    LogId::new(CommittedLeaderId::new(id.leader.term), id.index)
}

pub fn log_id_to_wire(id: &LogId) -> wire::LogId {
    wire::LogId {
        term: id.committed_leader_id().term,
        index: id.index(),
    }
}

pub fn log_id_from_wire(id: wire::LogId) -> LogId {
    LogId::new(CommittedLeaderId::new(id.term), id.index)
}

pub fn vote_to_wire(vote: &Vote) -> wire::Vote {
    wire::Vote {
        term: vote.leader_id.term,
        replica: vote.leader_id.voted_for,
        committed: vote.committed,
    }
}

pub fn vote_from_wire(vote: wire::Vote) -> Vote {
    let leader_id = LeaderId {
        term: vote.term,
        voted_for: vote.replica,
    };
    Vote {
        leader_id,
        committed: vote.committed,
    }
}

pub fn encode_vote(vote: &Vote) -> Bytes {
    vote_to_wire(vote).encode_to_vec().into()
}

pub fn decode_vote(bytes: &[u8]) -> Result<Vote, CodecError> {
    Ok(vote_from_wire(wire::Vote::decode(bytes)?))
}

pub fn membership_to_wire(membership: &Membership) -> wire::Membership {
    let voters = membership
        .get_joint_config()
        .iter()
        .map(|set| wire::VoterSet {
            replicas: set.iter().copied().collect(),
        })
        .collect();
    let replicas = membership
        .nodes()
        .map(|(replica, placement)| wire::Replica {
            replica: *replica,
            node: placement.node,
        })
        .collect();
    wire::Membership { voters, replicas }
}

pub fn membership_from_wire(membership: wire::Membership) -> Result<Membership, CodecError> {
    if membership.voters.is_empty() && membership.replicas.is_empty() {
        return Ok(Membership::default());
    }
    let voters: Vec<BTreeSet<u64>> = membership
        .voters
        .into_iter()
        .map(|set| set.replicas.into_iter().collect())
        .collect();
    let nodes: BTreeMap<u64, Placement> = membership
        .replicas
        .into_iter()
        .map(|replica| (replica.replica, Placement { node: replica.node }))
        .collect();
    Membership::new(voters, nodes).map_err(|error| CodecError::Membership(error.to_string()))
}

pub fn stored_membership_to_wire(stored: &StoredMembership) -> wire::StoredMembership {
    wire::StoredMembership {
        log_id: stored.log_id().as_ref().map(log_id_to_wire),
        membership: Some(membership_to_wire(stored.membership())),
    }
}

pub fn stored_membership_from_wire(
    stored: wire::StoredMembership,
) -> Result<StoredMembership, CodecError> {
    let membership = membership_from_wire(stored.membership.unwrap_or_default())?;
    Ok(StoredMembership::new(
        stored.log_id.map(log_id_from_wire),
        membership,
    ))
}

pub fn entry_to_wire(entry: Entry) -> wire::Entry {
    let payload = match entry.payload {
        EntryPayload::Blank => wire::entry::Payload::Blank(wire::Blank {}),
        EntryPayload::Normal(data) => wire::entry::Payload::Data(wire::Data {
            head: data.head,
            bodies: data.bodies,
        }),
        EntryPayload::Membership(membership) => {
            wire::entry::Payload::Membership(membership_to_wire(&membership))
        }
    };
    wire::Entry {
        id: Some(log_id_to_wire(&entry.log_id)),
        payload: Some(payload),
    }
}

pub fn entry_from_wire(entry: wire::Entry) -> Result<Entry, CodecError> {
    let log_id = log_id_from_wire(entry.id.ok_or(CodecError::Missing("an entry's log id"))?);
    let payload = match entry
        .payload
        .ok_or(CodecError::Missing("an entry's payload"))?
    {
        wire::entry::Payload::Blank(wire::Blank {}) => EntryPayload::Blank,
        wire::entry::Payload::Data(data) => EntryPayload::Normal(EntryData {
            head: data.head,
            bodies: data.bodies,
        }),
        wire::entry::Payload::Membership(membership) => {
            EntryPayload::Membership(membership_from_wire(membership)?)
        }
    };
    Ok(Entry { log_id, payload })
}

pub fn entry_to_storage(entry: Entry) -> storage::Entry {
    let id = log_id_to_storage(&entry.log_id);
    let (kind, rest, bodies) = match entry.payload {
        EntryPayload::Blank => (ENTRY_BLANK, Bytes::new(), Vec::new()),
        EntryPayload::Normal(data) => (ENTRY_DATA, data.head, data.bodies),
        EntryPayload::Membership(membership) => {
            let encoded = membership_to_wire(&membership).encode_to_vec().into();
            (ENTRY_MEMBERSHIP, encoded, Vec::new())
        }
    };
    let mut head = BytesMut::with_capacity(1 + rest.len());
    head.put_u8(kind);
    head.put_slice(&rest);
    storage::Entry {
        id,
        head: head.freeze(),
        bodies,
    }
}

pub fn entry_from_storage(entry: storage::Entry) -> Result<Entry, CodecError> {
    let index = entry.id.index;
    let kind = *entry.head.first().ok_or(CodecError::EmptyHead { index })?;
    let rest = entry.head.slice(1..);
    let payload = match kind {
        ENTRY_BLANK => EntryPayload::Blank,
        ENTRY_DATA => EntryPayload::Normal(EntryData {
            head: rest,
            bodies: entry.bodies,
        }),
        ENTRY_MEMBERSHIP => {
            EntryPayload::Membership(membership_from_wire(wire::Membership::decode(rest)?)?)
        }
        kind => return Err(CodecError::UnknownEntry { index, kind }),
    };
    Ok(Entry {
        log_id: log_id_from_storage(entry.id),
        payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(term), index)
    }

    fn membership() -> Membership {
        let nodes = BTreeMap::from([(4, Placement { node: 40 }), (5, Placement { node: 50 })]);
        Membership::new(vec![BTreeSet::from([4])], nodes).expect("valid")
    }

    fn entries() -> Vec<Entry> {
        let data = EntryData {
            head: Bytes::from_static(b"head"),
            bodies: vec![Bytes::from_static(b"one"), Bytes::new()],
        };
        vec![
            Entry {
                log_id: id(1, 1),
                payload: EntryPayload::Membership(membership()),
            },
            Entry {
                log_id: id(1, 2),
                payload: EntryPayload::Blank,
            },
            Entry {
                log_id: id(3, 7),
                payload: EntryPayload::Normal(data),
            },
        ]
    }

    #[test]
    fn entries_survive_log_and_wire() {
        for entry in entries() {
            let stored = entry_from_storage(entry_to_storage(entry.clone())).expect("readable");
            assert_eq!(stored, entry);
            let sent = entry_from_wire(entry_to_wire(entry.clone())).expect("readable");
            assert_eq!(sent, entry);
        }
    }

    /// Bytes of the first version: these must stay readable for ever.
    #[test]
    fn reads_the_first_version() {
        let head: &[u8] = &[2, 10, 3, 10, 1, 4, 18, 4, 8, 4, 16, 40, 18, 4, 8, 5, 16, 50];
        let stored = storage::Entry {
            id: storage::LogId {
                leader: storage::LeaderId { term: 1, node: 0 },
                index: 1,
            },
            head: Bytes::from_static(head),
            bodies: Vec::new(),
        };
        let entry = entry_from_storage(stored.clone()).expect("readable");
        assert_eq!(entry.payload, EntryPayload::Membership(membership()));
        assert_eq!(entry_to_storage(entry).head, stored.head);
        let vote = decode_vote(&[8, 3, 16, 9, 24, 1]).expect("readable");
        assert_eq!(vote, Vote::new_committed(3, 9));
    }

    #[test]
    fn votes_survive() {
        for vote in [Vote::new(3, 9), Vote::new_committed(3, 9), Vote::new(0, 0)] {
            assert_eq!(decode_vote(&encode_vote(&vote)).expect("readable"), vote);
        }
    }

    #[test]
    fn an_unknown_entry_is_refused() {
        let stored = storage::Entry {
            id: storage::LogId {
                leader: storage::LeaderId { term: 1, node: 0 },
                index: 1,
            },
            head: Bytes::from_static(&[9]),
            bodies: Vec::new(),
        };
        assert!(matches!(
            entry_from_storage(stored),
            Err(CodecError::UnknownEntry { index: 1, kind: 9 })
        ));
    }
}
