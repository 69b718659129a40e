//! `ListMessageMoveTasks`: the latest move tasks of a dead-letter queue, as of now.

use hikyaku_metadata::{MoveFailure, MoveStatus, MoveTask, QueueRecord};
use hikyaku_sqs::actions::list_message_move_tasks::{
    ListMessageMoveTasks, ListMessageMoveTasksResponse, ListedMoveTask, MoveTaskStatus,
};
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::move_task::TaskHandle;
use hikyaku_sqs::queue_name::QueueName;

use crate::call::Call;

pub(super) async fn run(
    request: ListMessageMoveTasks,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let source = call.read_resource("SourceArn", &request.source).await?;
    let listed = source.moves.iter();
    let listed = listed.take(usize::from(request.max_results.get()));
    Ok(call.answer(&ListMessageMoveTasksResponse {
        results: listed.map(|task| present(task, &source, call)).collect(),
    }))
}

fn present(task: &MoveTask, source: &QueueRecord, call: &Call<'_>) -> ListedMoveTask {
    let source = call.arn_of(source);
    let status = status_of(task.status);
    let destination = task.destination.as_deref().and_then(QueueName::try_new);
    let destination = destination.map(|name| QueueArn {
        name,
        ..source.clone()
    });
    let handle = (status == MoveTaskStatus::Running).then(|| TaskHandle {
        task: task.id.0.to_be_bytes(),
        source: source.clone(),
    });
    ListedMoveTask {
        task_handle: handle.map(|handle| handle.to_text()),
        status,
        source_arn: source.to_string(),
        destination_arn: destination.map(|arn| arn.to_string()),
        max_number_of_messages_per_second: task.rate.map(u32::from),
        approximate_number_of_messages_moved: task.moved(),
        approximate_number_of_messages_to_move: task.to_move,
        failure_reason: match task.status {
            MoveStatus::Failed(reason) => Some(reason_of(reason)),
            _ => None,
        },
        started_timestamp: task.started_at_ms,
    }
}

/// A task that is failing has not ended for clients, who know no such state.
fn status_of(status: MoveStatus) -> MoveTaskStatus {
    match status {
        MoveStatus::Running | MoveStatus::Failing(_) => MoveTaskStatus::Running,
        MoveStatus::Cancelling => MoveTaskStatus::Cancelling,
        MoveStatus::Completed => MoveTaskStatus::Completed,
        MoveStatus::Cancelled => MoveTaskStatus::Cancelled,
        MoveStatus::Failed(_) => MoveTaskStatus::Failed,
    }
}

/// The first is recorded of AWS, the others are our own.
fn reason_of(reason: MoveFailure) -> &'static str {
    match reason {
        MoveFailure::NonExistentQueue => "AWS.SimpleQueueService.NonExistentQueue",
        MoveFailure::NoSource => "CouldNotDetermineMessageSource",
        MoveFailure::TimedOut => "The task ran for 36 hours.",
    }
}
