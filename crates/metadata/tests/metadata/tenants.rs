//! Tenants and their access keys: what a life of theirs may be made of, and its stories.

use crate::harness::{Cluster, SECOND, create};
use crate::script::tenant;
use hikyaku_metadata::{
    ACCESS_KEYS_PER_TENANT_MAX, AccessKeyState, Attributes, ChangeAccessKey, ChangeAccessKeyError,
    Command, CreateAccessKey, CreateAccessKeyError, CreateQueue, CreateQueueError, CreateTenant,
    CreateTenantError, QUEUES_DROPPED_LIMIT, Reply, SealedSecret, SetTenantState,
    SetTenantStateError, TENANT_NAME_BYTES_MAX, TENANTS_MAX, TenantId, TenantState,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use std::collections::BTreeMap;

/// Tenants that scripts speak of: the default one, one with queues, and one without.
fn owner() -> impl Strategy<Value = TenantId> {
    (0_u8..3).prop_map(tenant)
}

fn key() -> impl Strategy<Value = String> {
    select(vec!["K1", "K2", "K3"]).prop_map(str::to_owned)
}

pub fn sealed(byte: u8) -> SealedSecret {
    SealedSecret {
        key: u32::from(byte),
        bytes: vec![byte; 20],
    }
}

pub fn command() -> impl Strategy<Value = Command> {
    let name = select(vec!["default", "one", "two", "One", "2nd", "o_e", ""]);
    let state = select(vec![
        TenantState::Active,
        TenantState::Suspended,
        TenantState::Deleting,
        TenantState::Deleted,
    ]);
    let change = prop_oneof![
        Just(None),
        Just(Some(AccessKeyState::Active)),
        Just(Some(AccessKeyState::Disabled)),
    ];
    prop_oneof![
        3 => (owner(), name).prop_map(|(tenant, name)| {
            Command::CreateTenant(CreateTenant { tenant, name: name.to_owned() })
        }),
        1 => (owner(), state).prop_map(|(tenant, state)| {
            Command::SetTenantState(SetTenantState { tenant, state })
        }),
        3 => (owner(), key(), any::<u8>(), select(vec![0_usize, 256, 257])).prop_map(
            |(tenant, key, byte, length)| {
                let description = "d".repeat(length);
                let sealed = sealed(byte);
                Command::CreateAccessKey(CreateAccessKey { tenant, key, sealed, description })
            }
        ),
        2 => (key(), change).prop_map(|(key, state)| {
            Command::ChangeAccessKey(ChangeAccessKey { key, state })
        }),
    ]
}

fn make(tenant: TenantId, name: &str) -> Command {
    let name = name.to_owned();
    Command::CreateTenant(CreateTenant { tenant, name })
}

fn give(tenant: TenantId, key: &str) -> Command {
    Command::CreateAccessKey(CreateAccessKey {
        tenant,
        key: key.to_owned(),
        sealed: sealed(1),
        description: String::new(),
    })
}

fn set(tenant: TenantId, state: TenantState) -> Command {
    Command::SetTenantState(SetTenantState { tenant, state })
}

fn queue_of(tenant: TenantId, name: &str) -> Command {
    Command::CreateQueue(CreateQueue {
        tenant,
        name: name.to_owned(),
        fifo: false,
        attributes: Attributes::default(),
        tags: BTreeMap::new(),
    })
}

#[test]
fn single_tenant_use_needs_nothing() {
    let mut cluster = Cluster::founded();
    let created = cluster.ask(SECOND, create("orders", Attributes::default()));
    assert!(matches!(created, Reply::QueueCreated(Ok(_))));
    assert_eq!(cluster.metadata.tenants().count(), 0);
    for state in [TenantState::Suspended, TenantState::Deleted] {
        let set = cluster.ask(SECOND, set(TenantId::DEFAULT, state));
        assert_eq!(
            set,
            Reply::TenantStateSet(Err(SetTenantStateError::DefaultStays))
        );
    }
    let given = cluster.ask(SECOND, give(TenantId::DEFAULT, "K1"));
    assert_eq!(given, Reply::AccessKeyCreated(Ok(())));
    let owner = cluster.metadata.owner_of_key("K1").unwrap();
    assert_eq!((owner.tenant, &*owner.name), (TenantId::DEFAULT, "default"));
}

#[test]
fn a_tenant_is_created_once_and_its_id_is_given_once() {
    let mut cluster = Cluster::founded();
    let created = |existed| Reply::TenantCreated(Ok(existed));
    let refused = |error| Reply::TenantCreated(Err(error));
    assert_eq!(cluster.ask(1, make(tenant(1), "one")), created(false));
    assert_eq!(cluster.ask(2, make(tenant(1), "one")), created(true));
    let named = cluster.ask(2, make(tenant(2), "one"));
    assert_eq!(named, refused(CreateTenantError::NameTaken(tenant(1))));
    let other = cluster.ask(2, make(tenant(1), "other"));
    assert_eq!(other, refused(CreateTenantError::IdTaken));
    let deleted = cluster.ask(3, set(tenant(1), TenantState::Deleting));
    assert_eq!(deleted, Reply::TenantStateSet(Ok(TenantState::Deleted)));
    for name in ["one", "other"] {
        let again = cluster.ask(4, make(tenant(1), name));
        assert_eq!(again, refused(CreateTenantError::IdTaken));
    }
    assert_eq!(cluster.ask(5, make(tenant(2), "one")), created(false));
    let back = cluster.ask(6, set(tenant(1), TenantState::Active));
    let gone = SetTenantStateError::Deleted(tenant(1));
    assert_eq!(back, Reply::TenantStateSet(Err(gone)));
}

#[test]
fn a_name_is_a_label_and_never_an_id() {
    let mut cluster = Cluster::founded();
    let long = "n".repeat(TENANT_NAME_BYTES_MAX + 1);
    for name in [
        "",
        "Orders",
        "-a",
        "1",
        "000000000001",
        "a b",
        "a.b",
        "ä",
        &long,
    ] {
        let created = cluster.ask(1, make(tenant(1), name));
        let refused = Reply::TenantCreated(Err(CreateTenantError::InvalidName));
        assert_eq!(created, refused, "{name:?}");
    }
    for (number, name) in (1..).zip(["a", "team-1", &long[1..]]) {
        let created = cluster.ask(1, make(tenant(number), name));
        assert_eq!(created, Reply::TenantCreated(Ok(false)), "{name:?}");
    }
}

#[test]
fn a_suspended_tenant_keeps_what_it_has_and_gets_no_queue() {
    let mut cluster = Cluster::founded();
    cluster.ask(1, make(tenant(1), "one"));
    cluster.ask(1, give(tenant(1), "K1"));
    cluster.ask(1, queue_of(tenant(1), "orders"));
    let suspended = cluster.ask(2, set(tenant(1), TenantState::Suspended));
    assert_eq!(suspended, Reply::TenantStateSet(Ok(TenantState::Suspended)));
    let refused = cluster.ask(3, queue_of(tenant(1), "more"));
    let inactive = CreateQueueError::TenantNotActive;
    assert_eq!(refused, Reply::QueueCreated(Err(inactive)));
    assert!(
        cluster
            .metadata
            .queue_by_name(tenant(1), "orders")
            .is_some()
    );
    assert_eq!(cluster.metadata.tenant(tenant(1)).unwrap().keys.len(), 1);
    cluster.ask(4, set(tenant(1), TenantState::Active));
    let more = cluster.ask(5, queue_of(tenant(1), "more"));
    assert!(matches!(more, Reply::QueueCreated(Ok(_))));
}

#[test]
fn a_deleted_tenant_loses_its_keys_at_once_and_its_queues_in_bounded_steps() {
    let mut cluster = Cluster::founded();
    cluster.ask(1, make(tenant(1), "one"));
    cluster.ask(1, give(tenant(1), "K1"));
    let numbers = 0..=QUEUES_DROPPED_LIMIT;
    let queues = numbers.map(|number| queue_of(tenant(1), &format!("q{number}")));
    cluster.ask_all(1, queues.collect());
    cluster.ask(1, queue_of(tenant(2), "other"));
    let deleting = cluster.ask(2, set(tenant(1), TenantState::Deleted));
    assert_eq!(deleting, Reply::TenantStateSet(Ok(TenantState::Deleting)));
    assert!(cluster.metadata.owner_of_key("K1").is_none());
    let refused = cluster.ask(2, give(tenant(1), "K2"));
    let gone = CreateAccessKeyError::Deleted(tenant(1));
    assert_eq!(refused, Reply::AccessKeyCreated(Err(gone)));
    let refused = cluster.ask(2, queue_of(tenant(1), "late"));
    let inactive = CreateQueueError::TenantNotActive;
    assert_eq!(refused, Reply::QueueCreated(Err(inactive)));
    for left in [1, 0] {
        assert!(cluster.metadata.housekeeping_due(2));
        cluster.ask(2, Command::Housekeep);
        let queues = cluster.metadata.list(tenant(1), "", None, usize::MAX);
        assert_eq!(queues.len(), left);
    }
    assert!(!cluster.metadata.housekeeping_due(2));
    let record = cluster.metadata.tenant(tenant(1)).unwrap();
    assert_eq!(record.state, TenantState::Deleted);
    assert!(cluster.metadata.queue_by_name(tenant(2), "other").is_some());
}

#[test]
fn a_key_is_of_one_tenant_and_changes_as_often_as_it_is_told_to() {
    let mut cluster = Cluster::founded();
    let change = |key: &str, state| {
        let key = key.to_owned();
        Command::ChangeAccessKey(ChangeAccessKey { key, state })
    };
    cluster.ask(1, make(tenant(1), "one"));
    assert_eq!(
        cluster.ask(1, give(tenant(1), "K1")),
        Reply::AccessKeyCreated(Ok(()))
    );
    let taken = cluster.ask(1, give(TenantId::DEFAULT, "K1"));
    let refused = CreateAccessKeyError::IdTaken;
    assert_eq!(taken, Reply::AccessKeyCreated(Err(refused)));
    let unknown = cluster.ask(1, give(tenant(2), "K2"));
    let refused = CreateAccessKeyError::NoSuchTenant(tenant(2));
    assert_eq!(unknown, Reply::AccessKeyCreated(Err(refused)));
    for state in [AccessKeyState::Disabled, AccessKeyState::Active] {
        for news in [1, 0] {
            let revision = cluster.metadata.revision();
            let changed = cluster.ask(2, change("K1", Some(state)));
            assert_eq!(changed, Reply::AccessKeyChanged(Ok(())));
            assert_eq!(cluster.metadata.revision(), revision + news);
            let record = cluster.metadata.tenant(tenant(1)).unwrap();
            assert_eq!(record.keys["K1"].state, state);
        }
    }
    assert_eq!(
        cluster.ask(3, change("K1", None)),
        Reply::AccessKeyChanged(Ok(()))
    );
    let gone = Reply::AccessKeyChanged(Err(ChangeAccessKeyError::NoSuchKey));
    assert_eq!(cluster.ask(4, change("K1", None)), gone);
}

#[test]
fn keys_and_tenants_have_their_limits() {
    let mut cluster = Cluster::founded();
    for number in 0..ACCESS_KEYS_PER_TENANT_MAX {
        let given = cluster.ask(1, give(TenantId::DEFAULT, &format!("K{number}")));
        assert_eq!(given, Reply::AccessKeyCreated(Ok(())));
    }
    let many = cluster.ask(1, give(TenantId::DEFAULT, "more"));
    assert_eq!(
        many,
        Reply::AccessKeyCreated(Err(CreateAccessKeyError::TooMany))
    );

    // The default tenant has a record by now.
    let id = |number: usize| TenantId::parse(&format!("{number:012}")).unwrap();
    let fill = (1..TENANTS_MAX).map(|number| make(id(number), &format!("t{number}")));
    for reply in cluster.ask_all(2, fill.collect()) {
        assert_eq!(reply, Reply::TenantCreated(Ok(false)));
    }
    let many = cluster.ask(3, make(id(TENANTS_MAX), "more"));
    assert_eq!(many, Reply::TenantCreated(Err(CreateTenantError::TooMany)));
}
