//! What this node does for other nodes' routers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hikyaku_metadata::Envelope;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::submit_response::Result as SubmitResult;
use hikyaku_queue::{Command, PartitionId, QueueId, Reply};
use hikyaku_raft::NodeCalls;
use tokio::time::Instant;

use crate::control::{ControlPlane, NotHere};
use crate::partition::SubmitError;
use crate::router::Router;
use crate::watch::Watch;

/// Longest wait accepted from another node: SQS's 20 seconds and some travel.
const WAIT_MAX: Duration = Duration::from_secs(25);

/// Longest budget accepted from another node.
const BUDGET_MAX: Duration = Duration::from_secs(60);

/// Messages of one command: an SQS batch.
const MESSAGES_MAX: usize = 10;

/// Bodies of one command: a mebibyte of message in all, with room for what is stored beside it. An
/// entry that the log refuses would stop the group.
const BODY_BYTES_MAX: usize = 4 << 20;

/// Answers other nodes from this node's partitions and metadata replica.
pub struct LocalCalls {
    router: Arc<Router>,
    control: Arc<ControlPlane>,
    watch: Arc<Watch>,
}

impl LocalCalls {
    /// Answers from what is known here.
    pub fn new(watch: Arc<Watch>) -> Self {
        Self {
            router: Arc::clone(&watch.router),
            control: Arc::clone(&watch.control),
            watch,
        }
    }

    async fn run(
        &self,
        partition: u32,
        command: &[u8],
        bodies: Vec<Bytes>,
        wait: Duration,
        budget: Duration,
    ) -> SubmitResult {
        let Some(handle) = self.router.partition(PartitionId(partition)) else {
            return retry(None, true);
        };
        let body_bytes: usize = bodies.iter().map(Bytes::len).sum();
        if bodies.len() > MESSAGES_MAX || body_bytes > BODY_BYTES_MAX {
            return malformed("a command too large for one entry");
        }
        let command = match Command::decode(command) {
            Ok(command) if command.message_count() == bodies.len() => command,
            Ok(_) => return malformed("the number of bodies"),
            Err(error) => return malformed(error),
        };
        let now = Instant::now();
        let wait_until = (!wait.is_zero()).then(|| now + wait.min(WAIT_MAX));
        let submitted = handle.submit(command, bodies, wait_until);
        match tokio::time::timeout(budget.min(BUDGET_MAX), submitted).await {
            Ok(Ok(answered)) => {
                let now_ms = answered.now_ms;
                let mut sent_at_ms = Vec::new();
                let mut bodies = Vec::new();
                let mut reply = answered.reply;
                if let Some(unseen) = answered.unseen {
                    let mut kept = Vec::with_capacity(unseen.deliveries().len());
                    for delivered in handle.read_bodies(unseen).await {
                        kept.push(delivered.delivery);
                        sent_at_ms.push(delivered.sent_at_ms);
                        bodies.push(delivered.body);
                    }
                    reply = Reply::Received(kept);
                }
                let reply = reply.encode().into();
                SubmitResult::Answer(wire::Answer {
                    reply,
                    bodies,
                    now_ms,
                    sent_at_ms,
                })
            }
            Ok(Err(SubmitError::NotLeader {
                leader_node,
                no_effect,
            })) => retry(leader_node, no_effect),
            Ok(Err(SubmitError::Overloaded)) => refused(wire::Reason::Overloaded),
            Ok(Err(SubmitError::DiskFull)) => refused(wire::Reason::DiskFull),
            Err(_) => retry(None, false),
        }
    }
}

fn retry(leader_node: Option<u64>, no_effect: bool) -> SubmitResult {
    SubmitResult::Retry(wire::Retry {
        leader_node: leader_node.unwrap_or(0),
        no_effect,
    })
}

fn refused(reason: wire::Reason) -> SubmitResult {
    SubmitResult::Refused(wire::Refused {
        reason: reason.into(),
    })
}

fn malformed(what: impl std::fmt::Display) -> SubmitResult {
    tracing::error!(%what, "a command from another node cannot be read");
    retry(None, true)
}

fn retry_elsewhere(not_here: NotHere) -> wire::Retry {
    wire::Retry {
        leader_node: not_here.leader_node.unwrap_or(0),
        no_effect: not_here.no_effect,
    }
}

impl NodeCalls for LocalCalls {
    fn submit(&self, request: wire::SubmitRequest) -> BoxFuture<'_, wire::SubmitResponse> {
        Box::pin(async move {
            let budget = Duration::from_millis(request.budget_ms);
            let result = self.run(
                request.partition,
                &request.command,
                request.bodies,
                Duration::ZERO,
                budget,
            );
            wire::SubmitResponse {
                result: Some(result.await),
            }
        })
    }

    fn park(&self, request: wire::ParkRequest) -> BoxFuture<'_, wire::SubmitResponse> {
        Box::pin(async move {
            let wait = Duration::from_millis(request.wait_ms);
            let budget = Duration::from_millis(request.budget_ms);
            let result = self.run(
                request.partition,
                &request.command,
                Vec::new(),
                wait,
                budget,
            );
            wire::SubmitResponse {
                result: Some(result.await),
            }
        })
    }

    fn queue_counts(&self, request: wire::CountsRequest) -> BoxFuture<'_, wire::CountsResponse> {
        use wire::counts_response::Result as Answer;
        let handle = self.router.partition(PartitionId(request.partition));
        let result = match handle {
            Some(handle) if handle.leadership().serving => {
                let counts = handle.counts(QueueId(request.queue));
                Answer::Counts(crate::router::counts::counts_to_wire(counts))
            }
            Some(_) | None => Answer::Retry(wire::Retry {
                leader_node: 0,
                no_effect: true,
            }),
        };
        Box::pin(std::future::ready(wire::CountsResponse {
            result: Some(result),
        }))
    }

    fn control(&self, request: wire::ControlRequest) -> BoxFuture<'_, wire::ControlResponse> {
        use wire::control_response::Result as Answer;
        Box::pin(async move {
            let result = match Envelope::decode(&request.command) {
                Ok(envelope) => match self.control.execute_here(&envelope).await {
                    Ok(executed) => Answer::Answer(wire::ControlAnswer {
                        reply: executed.reply.encode().into(),
                        index: executed.index,
                    }),
                    Err(not_here) => Answer::Retry(retry_elsewhere(not_here)),
                },
                Err(error) => {
                    tracing::error!(%error, "a command from another node cannot be read");
                    Answer::Retry(wire::Retry {
                        leader_node: 0,
                        no_effect: true,
                    })
                }
            };
            wire::ControlResponse {
                result: Some(result),
            }
        })
    }

    fn barrier(&self, _request: wire::BarrierRequest) -> BoxFuture<'_, wire::BarrierResponse> {
        use wire::barrier_response::Result as Answer;
        Box::pin(async move {
            let result = match self.control.barrier_here().await {
                Ok(index) => Answer::Index(index),
                Err(not_here) => Answer::Retry(retry_elsewhere(not_here)),
            };
            wire::BarrierResponse {
                result: Some(result),
            }
        })
    }

    fn watch(&self, request: wire::WatchRequest) -> BoxFuture<'_, wire::WatchResponse> {
        Box::pin(self.watch.tell(request))
    }

    fn delivered(&self, request: wire::DeliveredRequest) -> BoxFuture<'_, wire::DeliveredResponse> {
        Box::pin(async move {
            let budget = Duration::from_millis(request.budget_ms).min(BUDGET_MAX);
            let queue = QueueId(request.queue);
            // Only the leader has seen everything that was answered.
            let delivered = match self.control.barrier_here().await {
                Ok(_) => {
                    self.control
                        .delivered_here(queue, request.version, budget)
                        .await
                }
                Err(_) => None,
            };
            wire::DeliveredResponse {
                delivered: delivered.unwrap_or(false),
            }
        })
    }

    fn set_voters(
        &self,
        request: wire::SetVotersRequest,
    ) -> BoxFuture<'_, wire::SetVotersResponse> {
        Box::pin(async move {
            let voters = request.voters.iter();
            let voters = voters.map(|it| (it.replica, it.node)).collect();
            let budget = Duration::from_millis(request.budget_ms).min(BUDGET_MAX);
            let set = self.watch.set_voters_here(request.group, voters, budget);
            let reason = set.await.err();
            wire::SetVotersResponse {
                done: reason.is_none(),
                reason: reason.unwrap_or_default(),
            }
        })
    }

    fn transfer_leader(
        &self,
        request: wire::TransferLeaderRequest,
    ) -> BoxFuture<'_, wire::TransferLeaderResponse> {
        Box::pin(async move {
            let asked = self.watch.transfer_here(request.group, request.node).await;
            wire::TransferLeaderResponse { asked }
        })
    }

    fn describe(&self, request: wire::DescribeRequest) -> BoxFuture<'_, wire::DescribeResponse> {
        use wire::describe_response::Result as Answer;
        Box::pin(async move {
            let result = match self.control.describe_here(QueueId(request.queue)).await {
                Ok(descriptor) => Answer::Described(wire::Described {
                    descriptor: descriptor.map_or_else(Bytes::new, |it| it.encode().into()),
                }),
                Err(not_here) => Answer::Retry(retry_elsewhere(not_here)),
            };
            wire::DescribeResponse {
                result: Some(result),
            }
        })
    }
}
