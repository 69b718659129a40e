//! What one tenant may take, and that it takes nothing from another.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_gateway::{Access, GatewayConfig, GatewayLimits};
use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Front, Setup};
use crate::signers::{ALICE, BOB, Signer, Standing, ask, code};

async fn front_with(limits: GatewayLimits) -> Front {
    let access = Access::of_keys([ALICE.key(), BOB.key()], None, Arc::new(Standing));
    let config = GatewayConfig {
        limits,
        ..GatewayConfig::default()
    };
    Front::start_as(Setup {
        access,
        config,
        ..Setup::default()
    })
    .await
}

/// So many requests of a tenant, evenly over ten seconds: how many were answered and throttled.
async fn asked(front: &Front, signer: Signer, requests: u32) -> (u32, u32) {
    let mut client = front.client().await;
    let (mut answered, mut throttled) = (0, 0);
    for _ in 0..requests {
        let answer = ask(&mut client, signer, "ListQueues", json!({})).await;
        match answer.status {
            200 => answered += 1,
            _ => {
                assert_eq!(code(&answer), (403, "RequestThrottled"));
                throttled += 1;
            }
        }
        sleep(Duration::from_secs(10) / requests).await;
    }
    (answered, throttled)
}

/// Time passes only while all wait, so that what the requests themselves take is nothing.
#[tokio::test(start_paused = true)]
async fn a_tenant_at_ten_times_its_rate_is_throttled_alone() {
    let front = front_with(GatewayLimits {
        tenant_requests_per_second: NonZeroU32::new(20),
        ..GatewayLimits::default()
    })
    .await;
    let alice = asked(&front, ALICE, 2_000);
    let bob = asked(&front, BOB, 150);
    let ((answered, throttled), bobs) = tokio::join!(alice, bob);
    assert_eq!(bobs, (150, 0));
    // Ten seconds of twenty, and the second that may be taken ahead.
    assert!((190..=230).contains(&answered), "{answered}");
    assert_eq!(answered + throttled, 2_000);
}

#[tokio::test]
async fn a_tenant_has_the_queues_that_it_may_have() {
    let front = front_with(GatewayLimits {
        tenant_queues: NonZeroU32::new(2),
        ..GatewayLimits::default()
    })
    .await;
    let mut client = front.client().await;
    for name in ["one", "two", "one"] {
        let members = json!({ "QueueName": name });
        let answer = ask(&mut client, ALICE, "CreateQueue", members).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let three = json!({ "QueueName": "three" });
    let answer = ask(&mut client, ALICE, "CreateQueue", three.clone()).await;
    assert_eq!(code(&answer), (403, "OverLimit"));
    let answer = ask(&mut client, BOB, "CreateQueue", three.clone()).await;
    assert_eq!(answer.status, 200, "{answer:?}");

    let one = json!({ "QueueUrl": "one" });
    let answer = ask(&mut client, ALICE, "DeleteQueue", one).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = ask(&mut client, ALICE, "CreateQueue", three).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
