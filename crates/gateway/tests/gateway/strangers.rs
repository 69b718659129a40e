//! Tenants do not see each other: whatever names something of another account is answered as what does
//! not exist (`T1` of the tenancy bars). And what one gives to another can be used.

use hikyaku_gateway::Access;
use hikyaku_sqs::action::Action;
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::move_task::TaskHandle;
use hikyaku_sqs::policy::IdentityPolicy;
use serde_json::{Value, json};

use crate::contract::query;
use crate::harness::{Answer, Client, Front, Setup};
use crate::signers::{
    ALICE, BOB, HOST, Signer, Standing, ask, code, form_request, guarded, now, send,
};

const MISSING: (u16, &str) = (400, "AWS.SimpleQueueService.NonExistentQueue");
const DENIED: (u16, &str) = (403, "AccessDenied");

fn url_of(owner: Signer, name: &str) -> String {
    format!("http://{HOST}/{}/{name}", owner.tenant)
}

fn arn_of(owner: Signer, name: &str) -> String {
    format!("arn:aws:sqs:us-east-1:{}:{name}", owner.tenant)
}

/// Asks for something that succeeds.
async fn act(client: &mut Client, signer: Signer, action: &str, members: Value) -> Value {
    let answer = ask(client, signer, action, members).await;
    assert_eq!(answer.status, 200, "{action}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap_or(Value::Null)
}

async fn create(client: &mut Client, owner: Signer, name: &str) -> String {
    let output = act(client, owner, "CreateQueue", json!({ "QueueName": name })).await;
    output["QueueUrl"].as_str().unwrap().to_owned()
}

/// Everything that an action can be told about something of somebody else's. `name` is that of a queue
/// of Alice's, `handle` a receipt handle; the rest is in order.
fn about(action: Action, name: &str, handle: &str) -> Vec<Value> {
    let url = url_of(ALICE, name);
    let arn = arn_of(ALICE, name);
    let own = url_of(BOB, "own");
    let redrive = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": 3 }).to_string();
    let with = |mut members: Value| {
        members["QueueUrl"] = json!(url);
        vec![members]
    };
    let with_handle = |members: Value| {
        let mut in_own = members.clone();
        in_own["QueueUrl"] = json!(own);
        let mut of_theirs = members;
        of_theirs["QueueUrl"] = json!(url);
        vec![in_own, of_theirs]
    };
    match action {
        Action::AddPermission => with(json!({
            "Label": "l", "AWSAccountIds": [BOB.tenant], "Actions": ["SendMessage"],
        })),
        Action::CancelMessageMoveTask => {
            let source = QueueArn::try_parse(&arn).unwrap();
            let task = TaskHandle {
                task: [7; 16],
                source,
            };
            vec![
                json!({ "TaskHandle": handle }),
                json!({ "TaskHandle": task.to_text() }),
            ]
        }
        Action::ChangeMessageVisibility => {
            with_handle(json!({ "ReceiptHandle": handle, "VisibilityTimeout": 0 }))
        }
        Action::ChangeMessageVisibilityBatch => with_handle(json!({
            "Entries": [{ "Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 0 }],
        })),
        Action::CreateQueue => vec![json!({
            "QueueName": "another", "Attributes": { "RedrivePolicy": redrive },
        })],
        Action::DeleteMessage => with_handle(json!({ "ReceiptHandle": handle })),
        Action::DeleteMessageBatch => {
            with_handle(json!({ "Entries": [{ "Id": "a", "ReceiptHandle": handle }] }))
        }
        Action::DeleteQueue
        | Action::ListDeadLetterSourceQueues
        | Action::ListQueueTags
        | Action::PurgeQueue
        | Action::ReceiveMessage => with(json!({})),
        Action::GetQueueAttributes => with(json!({ "AttributeNames": ["All"] })),
        Action::GetQueueUrl => vec![
            json!({ "QueueName": name }),
            json!({ "QueueName": name, "QueueOwnerAWSAccountId": ALICE.tenant }),
        ],
        Action::ListMessageMoveTasks => vec![json!({ "SourceArn": arn })],
        Action::ListQueues => vec![json!({ "QueueNamePrefix": name })],
        Action::RemovePermission => with(json!({ "Label": "l" })),
        Action::SendMessage => with(json!({ "MessageBody": "m" })),
        Action::SendMessageBatch => with(json!({ "Entries": [{ "Id": "a", "MessageBody": "m" }] })),
        Action::SetQueueAttributes => {
            let mut asked = with(json!({ "Attributes": { "DelaySeconds": "1" } }));
            asked.push(json!({ "QueueUrl": own, "Attributes": { "RedrivePolicy": redrive } }));
            asked
        }
        Action::StartMessageMoveTask => vec![
            json!({ "SourceArn": arn }),
            json!({ "SourceArn": arn_of(BOB, "own"), "DestinationArn": arn }),
        ],
        Action::TagQueue => with(json!({ "Tags": { "k": "v" } })),
        Action::UntagQueue => with(json!({ "TagKeys": ["k"] })),
    }
}

/// Asks in the other dialect.
async fn ask_form(client: &mut Client, signer: Signer, action: &str, members: &Value) -> Answer {
    let mut request = form_request(&query::form(action, members));
    signer.sign("sqs", now(), &mut request);
    send(client, request).await
}

/// What an answer says, without what it repeats of the request, and without the request's own id.
fn said(answer: &Answer, name: &str, handle: &str) -> (u16, Option<String>, String) {
    let header = answer.headers.get("x-amzn-query-error");
    let code = header.map(|code| code.to_str().unwrap().to_owned());
    let id = answer.headers["x-amzn-requestid"].to_str().unwrap();
    let body = answer.body.replace(id, "ID");
    let body = body.replace(handle, "HANDLE").replace(name, "NAME");
    (answer.status, code, body)
}

#[tokio::test]
async fn what_is_anothers_is_answered_as_what_does_not_exist() {
    let front = guarded().await;
    let mut client = front.client().await;
    let url = create(&mut client, ALICE, "secrets").await;
    create(&mut client, BOB, "own").await;
    let body = json!({ "QueueUrl": url, "MessageBody": "hers" });
    act(&mut client, ALICE, "SendMessage", body).await;
    let received = act(
        &mut client,
        ALICE,
        "ReceiveMessage",
        json!({ "QueueUrl": url }),
    )
    .await;
    let handle = received["Messages"][0]["ReceiptHandle"].as_str().unwrap();

    let absent = ("nothing", "bm90aGluZw==");
    for action in Action::ALL {
        let theirs = about(action, "secrets", handle);
        let nothings = about(action, absent.0, absent.1);
        for (theirs, nothings) in theirs.into_iter().zip(nothings) {
            let (told, name) = (theirs.to_string(), action.name());
            let in_forms = (
                ask_form(&mut client, BOB, name, &theirs).await,
                ask_form(&mut client, BOB, name, &nothings).await,
            );
            let in_json = (
                ask(&mut client, BOB, name, theirs).await,
                ask(&mut client, BOB, name, nothings).await,
            );
            for (theirs, nothings) in [in_forms, in_json] {
                assert_eq!(
                    said(&theirs, "secrets", handle),
                    said(&nothings, absent.0, absent.1),
                    "{action:?} {told}"
                );
                let tells = theirs.body.contains("hers");
                assert!(!tells, "{action:?} {told}: {theirs:?}");
            }
        }
    }
    // And nothing happened to it.
    let all = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
    let output = act(&mut client, ALICE, "GetQueueAttributes", all).await;
    let attributes = &output["Attributes"];
    assert_eq!(attributes["ApproximateNumberOfMessagesNotVisible"], "1");
    assert_eq!(attributes["DelaySeconds"], "0");
    assert_eq!(attributes["Policy"], Value::Null);
}

#[tokio::test]
async fn what_is_given_to_another_account_can_be_used_and_no_more() {
    let front = guarded().await;
    let mut client = front.client().await;
    let url = create(&mut client, ALICE, "letters").await;
    let give = json!({
        "QueueUrl": url, "Label": "bob", "AWSAccountIds": [BOB.tenant],
        "Actions": ["SendMessage", "GetQueueUrl", "GetQueueAttributes"],
    });
    act(&mut client, ALICE, "AddPermission", give).await;

    let find = json!({ "QueueName": "letters", "QueueOwnerAWSAccountId": ALICE.tenant });
    let found = act(&mut client, BOB, "GetQueueUrl", find).await;
    assert_eq!(found["QueueUrl"], url.as_str());
    act(
        &mut client,
        BOB,
        "SendMessage",
        json!({ "QueueUrl": url, "MessageBody": "one" }),
    )
    .await;
    let batch = json!({ "QueueUrl": url, "Entries": [{ "Id": "a", "MessageBody": "two" }] });
    act(&mut client, BOB, "SendMessageBatch", batch).await;
    let arn = json!({ "QueueUrl": url, "AttributeNames": ["QueueArn"] });
    let output = act(&mut client, BOB, "GetQueueAttributes", arn).await;
    assert_eq!(output["Attributes"]["QueueArn"], arn_of(ALICE, "letters"));
    let answer = ask(
        &mut client,
        BOB,
        "ReceiveMessage",
        json!({ "QueueUrl": url }),
    )
    .await;
    assert_eq!(code(&answer), MISSING);

    let mut senders = Vec::new();
    while senders.len() < 2 {
        let members = json!({
            "QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20,
            "MessageSystemAttributeNames": ["SenderId"],
        });
        let output = act(&mut client, ALICE, "ReceiveMessage", members).await;
        let messages = output["Messages"].as_array().unwrap();
        senders.extend(
            messages
                .iter()
                .map(|it| it["Attributes"]["SenderId"].clone()),
        );
    }
    assert_eq!(senders, [BOB.tenant, BOB.tenant]);

    let take = json!({ "QueueUrl": url, "Label": "bob" });
    act(&mut client, ALICE, "RemovePermission", take).await;
    let body = json!({ "QueueUrl": url, "MessageBody": "three" });
    let answer = ask(&mut client, BOB, "SendMessage", body).await;
    assert_eq!(code(&answer), MISSING);
}

/// Even by a policy that gives everything to everyone.
#[tokio::test]
async fn what_is_the_owners_alone_cannot_be_given() {
    let front = guarded().await;
    let mut client = front.client().await;
    let url = create(&mut client, ALICE, "open").await;
    let open = r#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}"#;
    let set = json!({ "QueueUrl": url, "Attributes": { "Policy": open } });
    act(&mut client, ALICE, "SetQueueAttributes", set).await;
    act(
        &mut client,
        BOB,
        "ReceiveMessage",
        json!({ "QueueUrl": url }),
    )
    .await;
    for action in Action::ALL.into_iter().filter(|it| !it.is_grantable()) {
        for members in about(action, "open", "bm90aGluZw==") {
            let names_queue = members["QueueUrl"] == url.as_str();
            let answer = ask(&mut client, BOB, action.name(), members).await;
            assert!(
                !names_queue || code(&answer) == MISSING,
                "{action:?} {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_deny_reaches_the_owner_who_can_still_mend_it() {
    let front = guarded().await;
    let mut client = front.client().await;
    let url = create(&mut client, ALICE, "closed").await;
    let closed = r#"{"Statement":{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}}"#;
    let set = |policy: &str| json!({ "QueueUrl": url, "Attributes": { "Policy": policy } });
    act(&mut client, ALICE, "SetQueueAttributes", set(closed)).await;

    let body = json!({ "QueueUrl": url, "MessageBody": "m" });
    let answer = ask(&mut client, ALICE, "SendMessage", body.clone()).await;
    assert_eq!(code(&answer), DENIED);
    let text = format!(
        "User: arn:aws:iam::{}:root is not authorized to perform: sqs:sendmessage on resource: {} \
         with an explicit deny in a resource-based policy",
        ALICE.tenant,
        arn_of(ALICE, "closed")
    );
    assert!(answer.body.contains(&text), "{answer:?}");

    act(&mut client, ALICE, "SetQueueAttributes", set("")).await;
    act(&mut client, ALICE, "SendMessage", body).await;
}

#[tokio::test]
async fn conditions_look_at_the_connection() {
    let front = guarded().await;
    let mut client = Client::over(front.connect_from([10, 1, 2, 3])).await;
    let mut elsewhere = Client::over(front.connect_from([192, 0, 2, 1])).await;
    let url = create(&mut client, ALICE, "near").await;
    let near = json!({ "Statement": {
        "Effect": "Allow", "Principal": { "AWS": BOB.tenant }, "Action": "sqs:SendMessage",
        "Resource": arn_of(ALICE, "near"),
        "Condition": {
            "IpAddress": { "aws:SourceIp": "10.0.0.0/8" },
            "Bool": { "aws:SecureTransport": "false" },
            "DateGreaterThan": { "aws:CurrentTime": "2020-01-01" },
        },
    } });
    let set = json!({ "QueueUrl": url, "Attributes": { "Policy": near.to_string() } });
    act(&mut client, ALICE, "SetQueueAttributes", set).await;
    let body = json!({ "QueueUrl": url, "MessageBody": "m" });
    act(&mut client, BOB, "SendMessage", body.clone()).await;
    let answer = ask(&mut elsewhere, BOB, "SendMessage", body).await;
    assert_eq!(code(&answer), MISSING);
}

/// A front where Bob's key is that of a user with this policy.
async fn front_with_user(policy: &Value) -> Front {
    let policy = IdentityPolicy::parse(&policy.to_string()).unwrap();
    let clock = std::sync::Arc::new(Standing);
    let access = Access::of_keys([ALICE.key(), BOB.key()], None, clock);
    let access = access.with_user(BOB.id, "bob", policy).unwrap();
    Front::start_as(Setup {
        access,
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn a_user_does_what_its_policy_allows() {
    let policy = json!({ "Statement": [
        {
            "Effect": "Allow", "Action": ["sqs:CreateQueue", "sqs:SendMessage"],
            "Resource": "arn:aws:sqs:*:*:b-*",
        },
        { "Effect": "Deny", "Action": "sqs:*", "Resource": "arn:aws:sqs:*:*:b-closed" },
    ] });
    let front = front_with_user(&policy).await;
    let mut client = front.client().await;
    let url = create(&mut client, BOB, "b-1").await;
    let body = json!({ "QueueUrl": url, "MessageBody": "m" });
    act(&mut client, BOB, "SendMessage", body).await;

    let user = format!(
        "User: arn:aws:iam::{}:user/bob is not authorized",
        BOB.tenant
    );
    for (action, members, reason) in [
        (
            "ReceiveMessage",
            json!({ "QueueUrl": url }),
            "no identity-based policy allows",
        ),
        (
            "ListQueues",
            json!({}),
            "no identity-based policy allows the sqs:listqueues action",
        ),
        (
            "CreateQueue",
            json!({ "QueueName": "c" }),
            "no identity-based policy allows",
        ),
        (
            "CreateQueue",
            json!({ "QueueName": "b-closed" }),
            "explicit deny in an identity-based",
        ),
        (
            "PurgeQueue",
            json!({ "QueueUrl": "none" }),
            "no identity-based policy allows",
        ),
    ] {
        let answer = ask(&mut client, BOB, action, members).await;
        assert_eq!(code(&answer), DENIED, "{action}");
        let told = answer.body.contains(&user) && answer.body.contains(reason);
        assert!(told, "{action}: {answer:?}");
    }
    // Another account's queue needs the yes of both.
    for name in ["b-hers", "hers"] {
        let url = create(&mut client, ALICE, name).await;
        let give = json!({
            "QueueUrl": url, "Label": "bob", "AWSAccountIds": [BOB.tenant],
            "Actions": ["SendMessage", "ReceiveMessage"],
        });
        act(&mut client, ALICE, "AddPermission", give).await;
        let body = json!({ "QueueUrl": url, "MessageBody": "m" });
        let sent = ask(&mut client, BOB, "SendMessage", body).await;
        assert_eq!(sent.status == 200, name == "b-hers", "{sent:?}");
        let answer = ask(
            &mut client,
            BOB,
            "ReceiveMessage",
            json!({ "QueueUrl": url }),
        )
        .await;
        assert_eq!(code(&answer), MISSING);
    }
}

#[tokio::test]
async fn a_user_is_told_who_it_is() {
    let front = front_with_user(&json!({ "Statement": [] })).await;
    let mut client = front.client().await;
    let mut request = form_request("Action=GetCallerIdentity&Version=2011-06-15");
    BOB.sign("sts", now(), &mut request);
    let answer = send(&mut client, request).await;
    let arn = format!("<Arn>arn:aws:iam::{}:user/bob</Arn>", BOB.tenant);
    assert!(answer.body.contains(&arn), "{answer:?}");
}
