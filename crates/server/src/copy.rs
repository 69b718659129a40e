//! The catalogue's copy in sled, as the cluster wants it.
//!
//! sled waits for the disk, so every write runs on the blocking pool.

use futures_util::future::BoxFuture;
use hikyaku_cluster::{CatalogueCopy, CopyUpdate, Pairs};
use hikyaku_storage::CatalogueStore;
use std::io;
use std::sync::Arc;

/// A storage catalogue behind the cluster's port.
pub struct SledCopy<S>(Arc<S>);

impl<S: CatalogueStore + 'static> SledCopy<S> {
    /// Wraps an open catalogue.
    pub fn new(store: S) -> Self {
        Self(Arc::new(store))
    }
}

impl<S: CatalogueStore + 'static> CatalogueCopy for SledCopy<S> {
    fn load(&self) -> io::Result<(u64, Pairs)> {
        let revision = self.0.revision().map_err(io::Error::other)?;
        Ok((revision, self.0.load().map_err(io::Error::other)?))
    }

    fn apply(&self, update: CopyUpdate) -> BoxFuture<'static, io::Result<()>> {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || {
                if update.replace_all {
                    store.clear()?;
                }
                store.apply(update.revision, update.puts, update.deletes)
            });
            written
                .await
                .map_err(io::Error::other)?
                .map_err(io::Error::other)
        })
    }
}
