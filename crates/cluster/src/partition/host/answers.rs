//! What becomes of an applied command: its caller answered, its effects followed, its queue's descriptor
//! fetched when the slice lacked it.

use std::sync::Arc;

use hikyaku_queue::{Descriptor, Effects, Operation, QueueId, Reply};

use super::{Host, MetadataUnreachable, answer_plainly, refuse};
use crate::partition::unseen::Unseen;
use crate::partition::{Answered, Call, SubmitError, own_call};

impl Host {
    pub(super) fn answer(&mut self, call: Call, reply: Reply, now_ms: u64) {
        let queue = call.command.queue;
        let granted = call.granted;
        let found = matches!(&reply, Reply::Received(deliveries) if !deliveries.is_empty());
        if let Reply::Sent(results) = &reply {
            self.traffic.took(queue, results.len());
        }
        match reply {
            Reply::DescriptorNeeded { .. } => self.stall(call, queue),
            Reply::TargetNeeded { target } => self.stall(call, target),
            Reply::Received(_) if !found => self.park_or_answer(call, now_ms),
            Reply::Received(deliveries) => {
                let receive = call.command.request_id;
                let way_back = Arc::clone(&self.way_back);
                let unseen = Unseen::new(receive, deliveries, way_back);
                // Dropped, they are handed back.
                let unseen = (!self.is_given_up(&call)).then_some(unseen);
                let reply = Reply::Received(Vec::new());
                call.finish(Ok(Answered {
                    reply,
                    unseen,
                    now_ms,
                }));
            }
            reply => answer_plainly(call, reply, now_ms),
        }
        if granted {
            self.parking.granted(queue, found);
        }
        if self.parking.knows(queue) {
            self.grant(queue);
            self.refresh_deadline(queue);
        }
    }

    pub(super) fn follow_up(&mut self, effects: Effects) {
        for queue in effects.receivable {
            if !self.parking.knows(queue) {
                continue;
            }
            if self.group.with_machine(|machine| machine.0.is_gone(queue)) {
                let now_ms = self.now_ms();
                for call in self.parking.take_all(queue) {
                    answer_plainly(call, Reply::QueueGone, now_ms);
                }
            } else {
                self.grant(queue);
            }
        }
        for queue in effects.deadline_changed {
            if self.parking.knows(queue) {
                self.refresh_deadline(queue);
            }
        }
    }

    /// Sets a call aside until the descriptor of `queue`, its own or its dead-letter queue, is here.
    fn stall(&mut self, mut call: Call, queue: QueueId) {
        call.granted = false;
        let waiting = self.stalled.entry(queue).or_default();
        waiting.push(call);
        if waiting.len() == 1 {
            let fetch = self.descriptors.descriptor(queue);
            self.fetches
                .push(Box::pin(async move { (queue, fetch.await) }));
        }
    }

    pub(super) fn fetched(
        &mut self,
        queue: QueueId,
        descriptor: Result<Option<Descriptor>, MetadataUnreachable>,
    ) {
        let calls = self.stalled.remove(&queue).unwrap_or_default();
        match descriptor {
            Ok(Some(descriptor)) => {
                self.waiting.push_back(own_call(
                    self.own_command(queue, Operation::PutDescriptor(descriptor)),
                ));
                self.waiting.extend(calls);
            }
            Ok(None) => {
                let now_ms = self.now_ms();
                let own = |call: &Call| call.command.queue == queue;
                let (own, others): (Vec<Call>, Vec<Call>) = calls.into_iter().partition(own);
                for call in own {
                    answer_plainly(call, Reply::QueueGone, now_ms);
                }
                if !others.is_empty() {
                    let put = Operation::PutDescriptor(Descriptor::of_a_gone_queue(queue));
                    self.waiting
                        .push_back(own_call(self.own_command(queue, put)));
                    self.waiting.extend(others);
                }
            }
            Err(MetadataUnreachable) => {
                for call in calls {
                    let leader_node = self.leadership.borrow().leader_node;
                    refuse(
                        call,
                        SubmitError::NotLeader {
                            leader_node,
                            no_effect: true,
                        },
                    );
                }
            }
        }
    }
}
