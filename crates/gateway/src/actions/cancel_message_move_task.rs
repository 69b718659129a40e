//! `CancelMessageMoveTask`: stops a running move of dead letters. What was moved stays where it is.

use hikyaku_cluster::ControlError;
use hikyaku_metadata::{CancelMoveTask, CancelMoveTaskError};
use hikyaku_queue::MoveTaskId;
use hikyaku_sqs::actions::cancel_message_move_task::{
    CancelMessageMoveTask, CancelMessageMoveTaskResponse,
};
use hikyaku_sqs::error::{ErrorCode, SqsError};

use crate::call::Call;
use crate::failure;

pub(super) async fn run(
    request: CancelMessageMoveTask,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let found = call.find_queue(&request.source).await;
    let source = found.map_err(|error| match error.code {
        ErrorCode::QueueDoesNotExist => SqsError::task_does_not_exist(),
        _ => error,
    })?;
    let cancel = CancelMoveTask {
        queue: source.descriptor.id,
        task: MoveTaskId(u128::from_be_bytes(request.task)),
    };
    let moved = match call.node.cancel_move_task(cancel).await {
        Ok(moved) => moved,
        Err(ControlError::Refused(CancelMoveTaskError::NoSuchTask(_))) => {
            return Err(SqsError::task_does_not_exist());
        }
        Err(ControlError::Refused(CancelMoveTaskError::NotRunning(_))) => {
            return Err(SqsError::task_does_not_run());
        }
        Err(ControlError::Unavailable(unavailable)) => {
            return Err(failure::of_control(unavailable));
        }
    };
    Ok(call.answer(&CancelMessageMoveTaskResponse {
        approximate_number_of_messages_moved: moved,
    }))
}
