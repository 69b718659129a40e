//! What is damaged on this node's disk, mended from other replicas.
//!
//! A message body has the same bytes on every replica and a name that says which: its entry and its
//! ordinal. So a body that is damaged here is fetched by name from whoever has it, checked against
//! what is known of it here, and written again. Readers do that in the middle of their request; what
//! the scrub finds is mended in the background, from the log's ledger.
//!
//! A damaged checkpoint is replaced by a new one, of the machine in memory. A replica that lost more
//! than that stops at once: it neither votes nor leads any longer, and is replaced by whoever places
//! replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::peer_client::PeerClient;
use hikyaku_storage::{BodyName, GroupLog, LeaderId, Log, LogId, Work};
use tonic::Request;

use crate::directory::Directory;
use crate::log_store::on_disk;
use crate::maintenance;
use crate::transport::MESSAGE_BYTES_MAX;
use crate::transport::peers::Peers;

/// Bodies asked for at once, and the bytes of them in one answer (one always fits).
const ASKED_AT_ONCE: usize = 64;
const ANSWER_BYTES: usize = 8 << 20;

/// How long what could not be mended rests before it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Bodies by name.
pub type Found = BTreeMap<BodyName, Bytes>;

/// Fetches bodies from other nodes. Cheap to clone.
#[derive(Clone)]
pub struct Mender {
    peers: Peers,
    work: Work,
    patience: Duration,
}

impl Mender {
    /// Each node is given so much time to answer.
    pub fn new(peers: Peers, work: Work, patience: Duration) -> Self {
        Self {
            peers,
            work,
            patience,
        }
    }

    /// Fetches bodies that are damaged here and writes them again. Gives those that were found, written
    /// or not.
    pub fn mend<'a>(
        &'a self,
        group: u64,
        log: &'a GroupLog,
        names: &'a [BodyName],
    ) -> BoxFuture<'a, Found> {
        // Boxed: it is rare, and everything that reads a body would have to hold it.
        Box::pin(async move {
            let (found, _) = self.fetch(group, names).await;
            self.write(group, log, found.clone()).await;
            found
        })
    }

    async fn write(&self, group: u64, log: &GroupLog, found: Found) {
        if found.is_empty() {
            return;
        }
        let log = log.clone();
        let written = on_disk(self.work, move || log.mend(found.into_iter().collect())).await;
        if let Err(error) = written {
            // They stay in the ledger.
            tracing::warn!(group, %error, "fetched bodies cannot be written");
        }
    }

    /// Asks one node after the other for what is still missing; also whether all that have a replica
    /// of the group have answered for all of it.
    async fn fetch(&self, group: u64, names: &[BodyName]) -> (Found, bool) {
        let mut found = Found::new();
        let mut all_answered = true;
        for node in self.peers.nodes() {
            loop {
                let missing = names.iter().filter(|name| !found.contains_key(name));
                let missing: Vec<BodyName> = missing.take(ASKED_AT_ONCE).copied().collect();
                if missing.is_empty() {
                    return (found, true);
                }
                let before = found.len();
                match self.ask(node, group, &missing).await {
                    Some(answer) => {
                        found.extend(bodies_of(answer.bodies, &missing));
                        if answer.more && found.len() > before {
                            continue;
                        }
                    }
                    None => all_answered = false,
                }
                break;
            }
        }
        (found, all_answered)
    }

    async fn ask(&self, node: u64, group: u64, names: &[BodyName]) -> Option<wire::BodiesResponse> {
        let channel = self.peers.channel(node)?;
        let wanted = names.iter().map(|(entry, ordinal)| wire::WantedBody {
            entry: Some(wire::LogId {
                term: entry.leader.term,
                index: entry.index,
            }),
            ordinal: *ordinal,
        });
        let mut request = Request::new(wire::BodiesRequest {
            group,
            wanted: wanted.collect(),
        });
        request.set_timeout(self.patience);
        let mut client = PeerClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        match tokio::time::timeout(self.patience, client.bodies(request)).await {
            Ok(Ok(answer)) => Some(answer.into_inner()),
            Ok(Err(error)) => {
                tracing::debug!(node = format_args!("{node:x}"), %error, "no bodies");
                None
            }
            Err(_) => None,
        }
    }
}

/// The bodies of an answer that were asked for.
fn bodies_of(bodies: Vec<wire::SnapshotBody>, asked: &[BodyName]) -> Found {
    let bodies = bodies.into_iter();
    bodies
        .filter_map(|it| Some(((log_id(it.entry?), it.ordinal), it.body)))
        .filter(|(name, _)| asked.contains(name))
        .collect()
}

fn log_id(id: wire::LogId) -> LogId {
    LogId {
        leader: LeaderId {
            term: id.term,
            node: 0,
        },
        index: id.index,
    }
}

/// Answers another node: the bodies that are whole here.
pub async fn answer(directory: &Directory, request: wire::BodiesRequest) -> wire::BodiesResponse {
    let Some(core) = directory.group(request.group) else {
        return wire::BodiesResponse::default();
    };
    let log = core.log.clone();
    on_disk(core.work, move || {
        let mut answer = wire::BodiesResponse {
            hosted: true,
            ..wire::BodiesResponse::default()
        };
        let mut bytes = 0;
        for wanted in request.wanted.into_iter().take(ASKED_AT_ONCE) {
            let Some(entry) = wanted.entry else {
                continue;
            };
            let Ok(body) = log.read_body(log_id(entry), wanted.ordinal) else {
                continue;
            };
            bytes += body.len();
            if bytes > ANSWER_BYTES && !answer.bodies.is_empty() {
                answer.more = true;
                break;
            }
            answer.bodies.push(wire::SnapshotBody {
                entry: Some(entry),
                ordinal: wanted.ordinal,
                body,
            });
        }
        answer
    })
    .await
}

/// Mends what is in the ledger, until it is aborted.
pub async fn run(directory: Directory, log: Log, mender: Mender) {
    let mut changed = log.watch_damages();
    let mut stopped = BTreeSet::new();
    loop {
        changed.borrow_and_update();
        let damages = log.damages();
        stopped.retain(|group| damages.lost.contains_key(group));
        for group in damages.lost.keys() {
            if stopped.insert(*group) {
                stop(&directory, group.0).await;
            }
        }
        for (group, names) in &damages.bodies {
            let names: Vec<BodyName> = names.iter().copied().collect();
            if let Some(core) = directory.group(group.0) {
                mend_group(&mender, group.0, &core.log, &names).await;
            }
        }
        for group in &damages.checkpoints {
            if let Some(core) = directory.group(group.0) {
                maintenance::checkpoint(&core).await;
            }
        }
        let left = log.damages();
        let idle = left.bodies.is_empty() && left.checkpoints.is_empty();
        let news = async {
            // The sender is the log's, which is held here.
            changed.changed().await.ok();
        };
        match idle {
            true => news.await,
            false => drop(tokio::time::timeout(AGAIN, news).await),
        }
    }
}

/// A damaged replica must not vote or lead any more.
async fn stop(directory: &Directory, group: u64) {
    if let Some(core) = directory.group(group) {
        tracing::error!(group, "a damaged replica stops");
        // A core that died has nothing left to stop.
        core.raft().shutdown().await.ok();
        core.leadership.send_modify(|now| {
            now.serving = false;
            now.leader_node = None;
        });
    }
}

async fn mend_group(mender: &Mender, group: u64, log: &GroupLog, names: &[BodyName]) {
    for names in names.chunks(ASKED_AT_ONCE) {
        let (held, names) = (log.clone(), names.to_vec());
        let local = on_disk(mender.work, move || {
            // What is still in memory need not be fetched.
            let read = names.iter().map(|name| held.read_body(name.0, name.1).ok());
            let read: Vec<Option<Bytes>> = read.collect();
            names.into_iter().zip(read).collect::<Vec<_>>()
        })
        .await;
        let (here, missing): (Vec<_>, Vec<_>) = local.into_iter().partition(|it| it.1.is_some());
        let mut found: Found = here
            .into_iter()
            .filter_map(|(name, body)| Some((name, body?)))
            .collect();
        let missing: Vec<BodyName> = missing.into_iter().map(|(name, _)| name).collect();
        let (fetched, all_answered) = mender.fetch(group, &missing).await;
        found.extend(fetched);
        let nowhere: Vec<BodyName> = missing
            .into_iter()
            .filter(|name| !found.contains_key(name))
            .collect();
        mender.write(group, log, found).await;
        if all_answered && !nowhere.is_empty() {
            // Deleted meanwhile, most likely; whoever needs one of them reports it again.
            tracing::warn!(
                group,
                bodies = nowhere.len(),
                "no node has these damaged bodies"
            );
            log.need_no_more(&nowhere);
        }
    }
}
