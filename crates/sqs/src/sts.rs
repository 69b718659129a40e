//! The one operation of the Security Token Service that is answered here: who is asking.
//!
//! Terraform and the AWS CLI ask it before anything else, at the same endpoint. It is spoken in the
//! Query dialect alone, and signed for the service `sts`.

use crate::policy::Principal;
use crate::reply::Reply;

/// The name of the operation.
pub const GET_CALLER_IDENTITY: &str = "GetCallerIdentity";

/// Answers who the caller is: the root of an account, or a user of it.
#[must_use]
pub fn caller_identity(request_id: &str, caller: &Principal) -> Reply {
    let account = caller.account().as_str();
    let id = caller.user_name().unwrap_or(account);
    let body = format!(
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <GetCallerIdentityResult>\
         <Arn>{caller}</Arn><UserId>{id}</UserId><Account>{account}</Account>\
         </GetCallerIdentityResult>\
         <ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>\
         </GetCallerIdentityResponse>"
    );
    Reply {
        status: 200,
        headers: vec![
            ("x-amzn-RequestId", request_id.to_owned()),
            ("Content-Type", "text/xml".to_owned()),
        ],
        body: body.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::caller_identity;
    use crate::policy::Principal;
    use crate::queue_name::AccountId;

    #[test]
    fn a_user_is_told_by_name() {
        let account = AccountId::try_new("123456789012").unwrap();
        let ann = Principal::user(account, "ann").unwrap();
        let body = String::from_utf8(caller_identity("id-1", &ann).body).unwrap();
        let result = "<Arn>arn:aws:iam::123456789012:user/ann</Arn><UserId>ann</UserId>\
                      <Account>123456789012</Account>";
        assert!(body.contains(result), "{body}");
    }

    #[test]
    fn the_caller_is_the_root_of_its_account() {
        let account = AccountId::try_new("123456789012").unwrap();
        let reply = caller_identity("id-1", &Principal::root(account));
        let body = String::from_utf8(reply.body).unwrap();
        let result = "<GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:root</Arn>\
                      <UserId>123456789012</UserId><Account>123456789012</Account>\
                      </GetCallerIdentityResult>";
        assert!(body.contains(result), "{body}");
        assert!(body.contains("<RequestId>id-1</RequestId>"), "{body}");
    }
}
