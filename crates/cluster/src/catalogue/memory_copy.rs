//! A copy of the catalogue that keeps nothing.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use futures_util::future::BoxFuture;

use super::{CatalogueCopy, CopyUpdate, Pairs};

/// A copy in memory, for simulations and for nodes that keep nothing.
#[derive(Default)]
pub struct MemoryCopy(Mutex<Held>);

#[derive(Default)]
struct Held {
    revision: u64,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl CatalogueCopy for MemoryCopy {
    fn load(&self) -> io::Result<(u64, Pairs)> {
        let held = self.0.lock().expect("no panic happens under this lock");
        let pairs = held
            .pairs
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok((held.revision, pairs))
    }

    fn apply(&self, update: CopyUpdate) -> BoxFuture<'static, io::Result<()>> {
        let mut held = self.0.lock().expect("no panic happens under this lock");
        if update.replace_all {
            held.pairs.clear();
        }
        held.revision = update.revision;
        for key in update.deletes {
            held.pairs.remove(&key);
        }
        held.pairs.extend(update.puts);
        Box::pin(std::future::ready(Ok(())))
    }
}
