//! Tenants and access keys that an operator created, beside those of the configuration.

use std::sync::Arc;

use hikyaku_cluster::Node;
use hikyaku_gateway::Access;
use hikyaku_metadata::{
    AccessKeyState, ChangeAccessKey, CreateAccessKey, CreateTenant, SEALING_KEY_BYTES, SealingKey,
    SealingKeys, SetTenantState, TenantId, TenantState,
};
use serde_json::json;
use zeroize::Zeroizing;

use crate::harness::{Client, Front, Setup};
use crate::signers::{ALICE, BOB, HOST, Signer, Standing, ask, code};

const CAROL: Signer = Signer {
    tenant: "210987654321",
    id: "HIKYCAROL",
    secret: "c2VjcmV0LW9mLWNhcm9sLXNlYWxlZC10aGVyZQ",
    token: None,
};

const INVALID: (u16, &str) = (403, "InvalidClientTokenId");

fn sealing(byte: u8) -> SealingKeys {
    let secret = Zeroizing::new([byte; SEALING_KEY_BYTES]);
    SealingKeys::new(SealingKey::new(secret), None)
}

fn tenant(signer: Signer) -> TenantId {
    TenantId::parse(signer.tenant).unwrap()
}

/// A front that believes what `opens` opens.
async fn front(opens: Option<SealingKeys>) -> Front {
    let mut access = Access::of_keys([ALICE.key(), BOB.key()], None, Arc::new(Standing));
    if let Some(opens) = opens {
        access = access.with_sealing_keys(opens);
    }
    Front::start_as(Setup {
        access,
        ..Setup::default()
    })
    .await
}

async fn create(node: &Node, signer: Signer, name: &str) {
    let create = CreateTenant {
        tenant: tenant(signer),
        name: name.to_owned(),
    };
    assert!(!node.create_tenant(create).await.unwrap(), "it is new");
}

/// Gives Carol her key, sealed by the key 1.
async fn give_key(node: &Node) {
    let create = CreateAccessKey {
        tenant: tenant(CAROL),
        key: CAROL.id.to_owned(),
        sealed: sealing(1).seal(tenant(CAROL), CAROL.id, CAROL.secret),
        description: String::new(),
    };
    node.create_access_key(create).await.unwrap();
}

async fn change_key(node: &Node, state: Option<AccessKeyState>) {
    let key = CAROL.id.to_owned();
    let change = ChangeAccessKey { key, state };
    node.change_access_key(change).await.unwrap();
}

async fn set(node: &Node, signer: Signer, state: TenantState) -> TenantState {
    let tenant = tenant(signer);
    let set = SetTenantState { tenant, state };
    node.set_tenant_state(set).await.unwrap()
}

async fn assert_admitted(client: &mut Client, signer: Signer) {
    let answer = ask(client, signer, "ListQueues", json!({})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

async fn assert_refused(client: &mut Client, signer: Signer) {
    let answer = ask(client, signer, "ListQueues", json!({})).await;
    assert_eq!(code(&answer), INVALID);
}

#[tokio::test]
async fn a_key_is_good_as_long_as_it_and_its_tenant_are_active() {
    let front = front(Some(sealing(1))).await;
    let (mut client, node) = (front.client().await, &front.node);
    assert_refused(&mut client, CAROL).await;
    create(node, CAROL, "carol").await;
    give_key(node).await;
    assert_admitted(&mut client, CAROL).await;
    let guesser = Signer {
        secret: ALICE.secret,
        ..CAROL
    };
    let answer = ask(&mut client, guesser, "ListQueues", json!({})).await;
    assert_eq!(code(&answer), (403, "SignatureDoesNotMatch"));

    change_key(node, Some(AccessKeyState::Disabled)).await;
    assert_refused(&mut client, CAROL).await;
    change_key(node, Some(AccessKeyState::Active)).await;
    assert_admitted(&mut client, CAROL).await;
    set(node, CAROL, TenantState::Suspended).await;
    assert_refused(&mut client, CAROL).await;
    set(node, CAROL, TenantState::Active).await;
    assert_admitted(&mut client, CAROL).await;
    change_key(node, None).await;
    assert_refused(&mut client, CAROL).await;
}

#[tokio::test]
async fn a_configured_key_is_of_its_tenant_too() {
    let front = front(None).await;
    let (mut client, node) = (front.client().await, &front.node);
    assert_admitted(&mut client, BOB).await;
    create(node, BOB, "bob").await;
    assert_admitted(&mut client, BOB).await;
    set(node, BOB, TenantState::Suspended).await;
    assert_refused(&mut client, BOB).await;
    assert_admitted(&mut client, ALICE).await;
    set(node, BOB, TenantState::Active).await;
    assert_admitted(&mut client, BOB).await;
}

/// Another node may have the key.
#[tokio::test]
async fn a_secret_that_stays_sealed_here_sends_the_client_elsewhere() {
    for opens in [None, Some(sealing(2))] {
        let front = front(opens).await;
        create(&front.node, CAROL, "carol").await;
        give_key(&front.node).await;
        let mut client = front.client().await;
        let answer = ask(&mut client, CAROL, "ListQueues", json!({})).await;
        assert_eq!(code(&answer), (503, "ServiceUnavailable"));
        assert_admitted(&mut client, ALICE).await;
    }
}

#[tokio::test]
async fn what_is_another_tenants_does_not_exist_for_a_new_one() {
    let front = front(Some(sealing(1))).await;
    let mut client = front.client().await;
    create(&front.node, CAROL, "carol").await;
    give_key(&front.node).await;
    let hers = json!({ "QueueName": "hers" });
    let made = ask(&mut client, ALICE, "CreateQueue", hers).await;
    assert_eq!(made.status, 200, "{made:?}");
    let url = format!("http://{HOST}/{}/hers", ALICE.tenant);
    let body = json!({ "QueueUrl": url, "MessageBody": "m" });
    let named = json!({ "QueueName": "hers", "QueueOwnerAWSAccountId": ALICE.tenant });
    let at = json!({ "QueueUrl": url });
    for (action, members) in [
        ("SendMessage", body),
        ("ReceiveMessage", at.clone()),
        ("GetQueueAttributes", at.clone()),
        ("DeleteQueue", at),
        ("GetQueueUrl", named),
        ("GetQueueUrl", json!({ "QueueName": "hers" })),
    ] {
        let answer = ask(&mut client, CAROL, action, members).await;
        let missing = (400, "AWS.SimpleQueueService.NonExistentQueue");
        assert_eq!(code(&answer), missing, "{action}");
    }
    let listed = ask(&mut client, CAROL, "ListQueues", json!({})).await;
    assert!(!listed.body.contains("hers"), "{listed:?}");
}

#[tokio::test]
async fn a_deleted_tenant_is_gone_with_its_queues() {
    let front = front(Some(sealing(1))).await;
    let (mut client, node) = (front.client().await, &front.node);
    create(node, CAROL, "carol").await;
    give_key(node).await;
    for name in ["one", "two"] {
        let answer = ask(
            &mut client,
            CAROL,
            "CreateQueue",
            json!({ "QueueName": name }),
        )
        .await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let state = set(node, CAROL, TenantState::Deleted).await;
    assert_eq!(state, TenantState::Deleting);
    assert_refused(&mut client, CAROL).await;
    let gone = async {
        while node.catalogue().tenant(tenant(CAROL)).unwrap().state != TenantState::Deleted {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, gone).await.unwrap();
    assert_eq!(node.catalogue().queue_count(), 0);
    assert_admitted(&mut client, ALICE).await;
}
