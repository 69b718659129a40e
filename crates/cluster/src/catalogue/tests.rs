use super::*;
use hikyaku_metadata::NodeRecord;

fn cluster(cluster_id: u128) -> ClusterRecord {
    let nodes = vec![NodeRecord::storage(1, "")];
    ClusterRecord {
        cluster_id,
        partitions: 1,
        replication: 1,
        handle_keys: vec![(1, [7; 64])],
        nodes,
    }
}

#[tokio::test]
async fn a_copy_that_was_being_replaced_is_empty() {
    let store = MemoryCopy::default();
    let puts = vec![(CLUSTER_KEY.to_vec(), cluster(5).encode())];
    let leftover = CopyUpdate {
        replace_all: true,
        revision: 0,
        puts,
        deletes: Vec::new(),
    };
    store.apply(leftover).await.expect("memory");
    assert_eq!(Catalogue::open(Arc::new(store)).cluster(), None);
}

#[tokio::test]
async fn a_copy_starts_from_what_the_store_has() {
    let store = MemoryCopy::default();
    let replicas = Replicas {
        members: BTreeMap::new(),
        version: 1,
        revision: 3,
    };
    let puts = vec![
        (CLUSTER_KEY.to_vec(), cluster(5).encode()),
        (group_key(GroupKey::Metadata), replicas.encode()),
    ];
    let whole = CopyUpdate {
        replace_all: true,
        revision: 3,
        puts,
        deletes: Vec::new(),
    };
    store.apply(whole).await.expect("memory");
    let catalogue = Catalogue::open(Arc::new(store));
    assert_eq!(
        catalogue.cluster().map(|cluster| cluster.cluster_id),
        Some(5)
    );
    assert!(catalogue.sealer().is_some());
    assert!(catalogue.replicas(GroupKey::Metadata).is_some());
}

#[tokio::test]
async fn a_store_that_knows_no_replicas_is_made_anew() {
    let store = MemoryCopy::default();
    let whole = CopyUpdate {
        replace_all: true,
        revision: 3,
        puts: vec![(CLUSTER_KEY.to_vec(), cluster(5).encode())],
        deletes: Vec::new(),
    };
    store.apply(whole).await.expect("memory");
    assert_eq!(Catalogue::open(Arc::new(store)).revision(), 0);
}

#[test]
fn a_store_that_cannot_be_read_is_as_good_as_empty() {
    struct Broken;
    impl CatalogueCopy for Broken {
        fn load(&self) -> io::Result<(u64, Pairs)> {
            Ok((4, vec![(CLUSTER_KEY.to_vec(), b"nonsense".to_vec())]))
        }
        fn apply(&self, _update: CopyUpdate) -> BoxFuture<'static, io::Result<()>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    assert_eq!(Catalogue::open(Arc::new(Broken)).cluster(), None);
}
