//! What Terraform's AWS provider calls for `aws_sqs_queue` with a policy, in its order: it compares what
//! it reads with what it set, several times over, and waits until the two agree.

use serde_json::{Value, json};

use crate::harness::{Answer, Client};
use crate::signers::{ALICE, ask, code, form_request, guarded, now, send};

/// Reads of one state that have to be equal before it is believed, 5 s apart there.
const EQUAL_READS: usize = 6;

/// Reads that have to say that a deleted queue is gone.
const GONE_READS: usize = 15;

async fn act(client: &mut Client, action: &str, members: Value) -> Value {
    let answer = ask(client, ALICE, action, members).await;
    assert_eq!(answer.status, 200, "{action}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap_or(Value::Null)
}

async fn read(client: &mut Client, url: &str) -> Answer {
    let all = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
    ask(client, ALICE, "GetQueueAttributes", all).await
}

/// The attributes, read until they are believed.
async fn attributes(client: &mut Client, url: &str) -> Value {
    let first = read(client, url).await;
    for _ in 1..EQUAL_READS {
        assert_eq!(read(client, url).await.body, first.body);
    }
    let mut output: Value = serde_json::from_str(&first.body).unwrap();
    output["Attributes"].take()
}

#[tokio::test]
async fn terraform_makes_changes_and_destroys_a_queue() {
    let front = guarded().await;
    let mut client = front.client().await;
    let mut who = form_request("Action=GetCallerIdentity&Version=2011-06-15");
    ALICE.sign("sts", now(), &mut who);
    let answer = send(&mut client, who).await;
    let account = format!("<Account>{}</Account>", ALICE.tenant);
    assert!(answer.body.contains(&account), "{answer:?}");

    // Created: every attribute of the resource is sent as text, and tags along with it.
    let asked = json!({
        "DelaySeconds": "90", "MaximumMessageSize": "2048", "MessageRetentionPeriod": "86400",
        "ReceiveMessageWaitTimeSeconds": "10", "VisibilityTimeout": "30",
        "SqsManagedSseEnabled": "true",
    });
    let create = json!({
        "QueueName": "terraform", "Attributes": asked, "tags": { "Environment": "production" },
    });
    let created = act(&mut client, "CreateQueue", create).await;
    let url = created["QueueUrl"].as_str().unwrap();
    let found = attributes(&mut client, url).await;
    for (name, value) in asked.as_object().unwrap() {
        assert_eq!(&found[name], value, "{name}");
    }
    let arn = found["QueueArn"].as_str().unwrap().to_owned();
    let url_read = json!({ "QueueName": "terraform" });
    let again = act(&mut client, "GetQueueUrl", url_read).await;
    assert_eq!(again["QueueUrl"], url);
    let tags = act(&mut client, "ListQueueTags", json!({ "QueueUrl": url })).await;
    assert_eq!(tags["Tags"], json!({ "Environment": "production" }));

    // `aws_sqs_queue_policy`: the text comes back byte by byte.
    let policy = format!(
        "{{\"Version\":\"2012-10-17\",\"Id\":\"sqspolicy\",\"Statement\":[{{\"Sid\":\"First\",\
         \"Effect\":\"Allow\",\"Principal\":\"*\",\"Action\":\"sqs:SendMessage\",\
         \"Resource\":\"{arn}\",\"Condition\":{{\"ArnEquals\":{{\
         \"aws:SourceArn\":\"arn:aws:sns:us-east-1:000000000000:topic\"}}}}}}]}}"
    );
    let set = |attributes: Value| json!({ "QueueUrl": url, "Attributes": attributes });
    act(
        &mut client,
        "SetQueueAttributes",
        set(json!({ "Policy": policy })),
    )
    .await;
    assert_eq!(
        attributes(&mut client, url).await["Policy"],
        policy.as_str()
    );

    // Changed: a customer key replaces SSE-SQS, and tags come and go.
    let keyed = json!({ "KmsMasterKeyId": "alias/aws/sqs", "KmsDataKeyReusePeriodSeconds": "300" });
    act(&mut client, "SetQueueAttributes", set(keyed)).await;
    let found = attributes(&mut client, url).await;
    assert_eq!(found["KmsMasterKeyId"], "alias/aws/sqs");
    assert_eq!(found["SqsManagedSseEnabled"], "false");
    let untag = json!({ "QueueUrl": url, "TagKeys": ["Environment"] });
    act(&mut client, "UntagQueue", untag).await;
    let tag = json!({ "QueueUrl": url, "Tags": { "Team": "mail" } });
    act(&mut client, "TagQueue", tag).await;
    let tags = act(&mut client, "ListQueueTags", json!({ "QueueUrl": url })).await;
    assert_eq!(tags["Tags"], json!({ "Team": "mail" }));

    // Destroyed, the policy first.
    act(
        &mut client,
        "SetQueueAttributes",
        set(json!({ "Policy": "" })),
    )
    .await;
    assert_eq!(attributes(&mut client, url).await["Policy"], Value::Null);
    act(&mut client, "DeleteQueue", json!({ "QueueUrl": url })).await;
    for _ in 0..GONE_READS {
        let answer = read(&mut client, url).await;
        let gone = (400, "AWS.SimpleQueueService.NonExistentQueue");
        assert_eq!(code(&answer), gone);
    }
}
