//! Deletes and changes of visibility: each goes to the partition that its receipt handle names.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use hikyaku_metadata::QueueRecord;
use hikyaku_queue::{
    ChangeVisibilityError, DeleteError, Operation, PartitionId, ReceiptHandle, Reply,
    VisibilityChange,
};

use super::{HandleError, unexpected};
use crate::node::Node;
use crate::router::CallError;

/// Handles of one partition, with their places in the request.
type Opened = Vec<(usize, ReceiptHandle)>;

impl Node {
    /// Deletes messages by their receipt handles: one result each.
    pub async fn delete(
        &self,
        queue: &QueueRecord,
        handles: &[&str],
    ) -> Vec<Result<(), HandleError<DeleteError>>> {
        let operation = |opened: &Opened| Operation::Delete {
            handles: opened.iter().map(|(_, handle)| *handle).collect(),
        };
        let read = |reply| match reply {
            Reply::Deleted(answers) => Ok(answers),
            reply => Err(unexpected(&reply)),
        };
        self.by_partition(queue, handles, operation, read).await
    }

    /// Sets new visibility timeouts (milliseconds from now) by receipt handle: one result each.
    pub async fn change_visibility(
        &self,
        queue: &QueueRecord,
        changes: &[(&str, u64)],
    ) -> Vec<Result<(), HandleError<ChangeVisibilityError>>> {
        let handles: Vec<&str> = changes.iter().map(|(handle, _)| *handle).collect();
        let change = |(place, handle): &(usize, ReceiptHandle)| VisibilityChange {
            handle: *handle,
            timeout_ms: changes[*place].1,
        };
        let operation = |opened: &Opened| Operation::ChangeVisibility {
            changes: opened.iter().map(change).collect(),
        };
        let read = |reply| match reply {
            Reply::VisibilityChanged(answers) => Ok(answers),
            reply => Err(unexpected(&reply)),
        };
        self.by_partition(queue, &handles, operation, read).await
    }

    /// One command for each partition, all at once; a failed one fails its own handles.
    async fn by_partition<E: std::error::Error>(
        &self,
        queue: &QueueRecord,
        handles: &[&str],
        operation: impl Fn(&Opened) -> Operation,
        read: impl Fn(Reply) -> Result<Vec<Result<(), E>>, CallError>,
    ) -> Vec<Result<(), HandleError<E>>> {
        let (mut results, by_partition) = self.open_handles(queue, handles);
        let calls = by_partition.iter().map(|(partition, opened)| {
            let request = self.request(queue, *partition, operation(opened));
            async move { self.router().call(&request).await }
        });
        let answers = join_all(calls).await;
        for (opened, routed) in by_partition.values().zip(answers) {
            match routed.and_then(|routed| read(routed.reply)) {
                Ok(answers) => {
                    for ((place, _), answer) in opened.iter().zip(answers) {
                        results[*place] = answer.map_err(HandleError::Refused);
                    }
                }
                Err(error) => {
                    for (place, _) in opened {
                        results[*place] = Err(HandleError::Call(error));
                    }
                }
            }
        }
        results
    }

    /// Opens sealed handles of one queue: results with the invalid ones filled in, and the valid ones
    /// by partition.
    #[expect(
        clippy::type_complexity,
        reason = "two results of one loop, taken apart at once"
    )]
    fn open_handles<E: std::error::Error>(
        &self,
        queue: &QueueRecord,
        handles: &[&str],
    ) -> (
        Vec<Result<(), HandleError<E>>>,
        BTreeMap<PartitionId, Opened>,
    ) {
        let mut results = Vec::with_capacity(handles.len());
        let mut by_partition: BTreeMap<_, Opened> = BTreeMap::new();
        let sealer = self.catalogue().sealer();
        for (place, text) in handles.iter().enumerate() {
            let opened = sealer.as_ref().and_then(|sealer| sealer.open(text).ok());
            match opened.filter(|handle| handle.queue == queue.descriptor.id) {
                Some(handle) => {
                    by_partition
                        .entry(handle.partition)
                        .or_default()
                        .push((place, handle));
                    results.push(Ok(()));
                }
                None => results.push(Err(HandleError::Invalid)),
            }
        }
        (results, by_partition)
    }
}
