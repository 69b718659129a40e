//! `StartMessageMoveTask`: has the messages of a dead-letter queue moved back, to where they came from
//! or to one queue of the same owner and kind.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{MOVE_TASKS_MAX, StartMoveTask, StartMoveTaskError};
use hikyaku_queue::MoveTaskId;
use hikyaku_sqs::actions::start_message_move_task::{
    StartMessageMoveTask, StartMessageMoveTaskResponse,
};
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::move_task::{MoveRate, TaskHandle};
use hikyaku_sqs::queue_url::QueueRef;

use crate::authorisation::authorise_destination;
use crate::call::Call;
use crate::failure;
use crate::ids::draw_uuid;

pub(super) async fn run(
    request: StartMessageMoveTask,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let source = call.read_resource("SourceArn", &request.source).await?;
    let destination = match &request.destination {
        Some(queue) => {
            let found = call.read_resource("DestinationArn", queue).await?;
            authorise_destination(call, &found)?;
            Some(found)
        }
        None => None,
    };
    let counts = call.node.counts(&source).await;
    let counts = counts.map_err(failure::of_call)?;
    let task = draw_uuid(call.node.entropy());
    let start = StartMoveTask {
        queue: source.descriptor.id,
        task: MoveTaskId(u128::from_be_bytes(task)),
        destination: destination.as_ref().map(|it| it.descriptor.id),
        rate: request.rate.map(MoveRate::get),
        // What is in flight or delayed moves once it is visible.
        to_move: counts.visible + counts.in_flight + counts.delayed,
    };
    let started = call.node.start_move_task(start).await;
    started.map_err(|error| refusal(error, request.destination.as_ref()))?;
    let handle = TaskHandle {
        task,
        source: call.arn_of(&source),
    };
    Ok(call.answer(&StartMessageMoveTaskResponse {
        task_handle: handle.to_text(),
    }))
}

fn refusal(error: ControlError<StartMoveTaskError>, destination: Option<&QueueRef>) -> SqsError {
    let refused = match error {
        ControlError::Refused(refused) => refused,
        ControlError::Unavailable(unavailable) => return failure::of_control(unavailable),
    };
    match refused {
        StartMoveTaskError::NoSuchQueue(_) => SqsError::resource_does_not_exist("SourceArn"),
        StartMoveTaskError::NoSuchDestination(_) => {
            SqsError::resource_does_not_exist("DestinationArn")
        }
        StartMoveTaskError::NoDeadLetterQueue => SqsError::no_dead_letter_queue(),
        StartMoveTaskError::UnfitDestination(_) => {
            let name = destination.map_or("", |queue| queue.name.as_str());
            let reason = "The destination must be another queue of the same type as the source.";
            SqsError::invalid_parameter("DestinationArn", name, reason)
        }
        StartMoveTaskError::Active => SqsError::move_task_active(),
        StartMoveTaskError::TooMany => SqsError::too_many_move_tasks(MOVE_TASKS_MAX),
    }
}
