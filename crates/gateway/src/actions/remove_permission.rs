//! `RemovePermission`: a statement leaves the queue's policy, which goes with its last one.

use hikyaku_sqs::actions::remove_permission::RemovePermission;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::policies;

pub(super) async fn run(
    request: RemovePermission<'_>,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let edited = policies::edit(call, &request.queue, |queue| {
        let label = request.check()?;
        let left = label.remove_from(policies::of_record(queue))?;
        Ok(left.unwrap_or_default())
    });
    edited.await?;
    Ok(NO_OUTPUT)
}
