//! `AddPermission`: a statement joins the queue's policy.

use hikyaku_sqs::actions::add_permission::AddPermission;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::policies;

pub(super) async fn run(request: AddPermission<'_>, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let edited = policies::edit(call, &request.queue, |queue| {
        let permission = request.check()?;
        permission.add_to(policies::of_record(queue), &call.arn_of(queue))
    });
    edited.await?;
    Ok(NO_OUTPUT)
}
