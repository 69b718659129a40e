//! Nodes that prove to each other who they are, and some that cannot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_raft::{Credentials, CredentialsError, Net, SecureNet};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::support::{Member, Setup, add, disks, leader_of, until};

const CLUSTER: &str = "orders.hikyaku";

/// Who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("drawn");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    /// A certificate with these names, changed by `change` before it is signed.
    fn issue(
        &self,
        names: [&str; 2],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Arc<CertifiedKey> {
        let names = names.map(str::to_owned).to_vec();
        let mut params = CertificateParams::new(names).expect("names");
        change(&mut params);
        let key = KeyPair::generate().expect("drawn");
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        let key = key.serialize_der().try_into().expect("a key");
        let chain = vec![certificate.der().clone()];
        let pair = CertifiedKey::from_der(chain, key, &ring::default_provider());
        Arc::new(pair.expect("a pair"))
    }

    /// What node `node` should have.
    fn node(&self, node: u64) -> Arc<CertifiedKey> {
        self.issue([CLUSTER, &format!("node-{node}")], |_| {})
    }
}

fn credentials(believed: &[&Authority], own: Arc<CertifiedKey>) -> Credentials {
    let mut roots = RootCertStore::empty();
    for authority in believed {
        roots.add(authority.0.der().clone()).expect("a certificate");
    }
    Credentials::new(roots, own).expect("usable")
}

/// Secures a node's wires with credentials that never change.
fn secured(
    credentials: impl Fn(u64) -> Credentials + Send + Sync + 'static,
) -> Option<Arc<crate::support::Secured>> {
    Some(Arc::new(move |node, plug| {
        let (_, credentials) = watch::channel(credentials(node));
        let net = SecureNet::new(plug, CLUSTER, credentials).expect("a good name");
        Arc::new(net) as Arc<dyn Net>
    }))
}

#[tokio::test(start_paused = true)]
async fn nodes_with_certificates_of_the_cluster_replicate() {
    let authority = Authority::new();
    let setup = Setup {
        secured: secured(move |node| credentials(&[&authority], authority.node(node))),
        ..Setup::default()
    };
    let members = setup.found(&disks()).await;
    for member in &members {
        for node in 1..=3 {
            member.node.peers().pin(node, &format!("node-{node}"));
        }
    }
    let leader = leader_of(&members, 0).await;
    for number in 1..=20 {
        add(&members[leader].groups[0], number)
            .await
            .expect("applied");
    }
    let everywhere = || {
        let mut totals = members
            .iter()
            .map(|m| m.groups[0].with_machine(|sum| sum.total));
        totals.all(|total| total == 210)
    };
    until("all have all", everywhere).await;
}

/// Node 1 is as it should be; node 2 has what `own` and `secure` give it. Neither hears the other.
async fn never_meet(
    authority: Authority,
    secure: bool,
    own: impl Fn(&Authority) -> Credentials + Send + Sync + 'static,
) -> [Member; 2] {
    let good = credentials(&[&authority], authority.node(1));
    let own = own(&authority);
    let wires = crate::wires::Wires::default();
    let disks = disks();
    let setup = |secured| Setup {
        secured,
        wires: wires.clone(),
        ..Setup::default()
    };
    let one = setup(secured(move |_| good.clone()))
        .start(1, &disks[0])
        .await;
    for node in 1..=3 {
        one.node.peers().pin(node, &format!("node-{node}"));
    }
    let own = secure.then(|| secured(move |_| own.clone())).flatten();
    let two = setup(own).start(2, &disks[1]).await;
    let voters = BTreeMap::from([(1, 1), (2, 2)]);
    one.groups[0].found(voters).await.expect("founded");
    tokio::time::sleep(Duration::from_secs(20)).await;
    for member in [&one, &two] {
        assert_eq!(member.node.transport_stats().control.opened, 0);
        assert!(!member.groups[0].leadership().serving);
    }
    assert!(two.groups[0].voters().is_empty(), "it heard of no group");
    [one, two]
}

#[tokio::test(start_paused = true)]
async fn another_authority_is_refused() {
    never_meet(Authority::new(), true, |authority| {
        let other = Authority::new();
        credentials(&[authority, &other], other.node(2))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_cluster_s_certificate_is_refused() {
    never_meet(Authority::new(), true, |authority| {
        let own = authority.issue(["billing.hikyaku", "node-2"], |_| {});
        credentials(&[authority], own)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_is_refused() {
    never_meet(Authority::new(), true, |authority| {
        let own = authority.issue([CLUSTER, "node-2"], |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        });
        credentials(&[authority], own)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn another_node_s_certificate_is_refused() {
    never_meet(Authority::new(), true, |authority| {
        credentials(&[authority], authority.node(3))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_encrypts_nothing_is_refused() {
    never_meet(Authority::new(), false, |authority| {
        credentials(&[authority], authority.node(2))
    })
    .await;
}

/// From one authority's certificates to another's while entries are applied, in the order that an
/// operator would take: believe both, show the new, believe only the new.
#[tokio::test(start_paused = true)]
async fn certificates_are_renewed_without_a_lost_entry() {
    let (old, new) = (Authority::new(), Authority::new());
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for node in 1..=3 {
        let (sender, receiver) = watch::channel(credentials(&[&old], old.node(node)));
        senders.push(sender);
        receivers.push(receiver);
    }
    let setup = Setup {
        secured: Some(Arc::new(move |node, plug| {
            let credentials = receivers[node as usize - 1].clone();
            let net = SecureNet::new(plug, CLUSTER, credentials).expect("a good name");
            Arc::new(net) as Arc<dyn Net>
        })),
        ..Setup::default()
    };
    let members = setup.found(&disks()).await;
    let leader = leader_of(&members, 0).await;
    let group = &members[leader].groups[0];
    let steps: [(&[&Authority], &Authority); 3] = [
        (&[&old, &new], &old),
        (&[&old, &new], &new),
        (&[&new], &new),
    ];
    let mut total = 0;
    for (believed, own) in steps {
        for (sender, node) in senders.iter().zip(1..) {
            sender.send_replace(credentials(believed, own.node(node)));
            for _ in 0..10 {
                total += 1;
                assert_eq!(add(group, 1).await.expect("applied"), total);
            }
        }
        // What stands goes on as it began; now each connection is made anew.
        for other in (1..=3).filter(|other| *other != leader as u64 + 1) {
            setup.wires.break_after(leader as u64 + 1, other, 1);
            total += 1;
            assert_eq!(add(group, 1).await.expect("applied"), total);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
    let everywhere = || {
        let mut totals = members
            .iter()
            .map(|m| m.groups[0].with_machine(|sum| sum.total));
        totals.all(|applied| applied == total)
    };
    until("all have all", everywhere).await;
}

#[test]
fn a_cluster_name_that_no_certificate_can_carry_is_refused() {
    let authority = Authority::new();
    let (_, credentials) = watch::channel(credentials(&[&authority], authority.node(1)));
    let plug = crate::wires::Wires::default().plug(1);
    let refused = SecureNet::new(plug, "orders of spring", credentials).err();
    assert!(
        matches!(refused, Some(CredentialsError::ClusterName(name)) if name == "orders of spring")
    );
}
