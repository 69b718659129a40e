//! Ids as AWS writes them: random UUIDs.

use hikyaku_cluster::Entropy;

/// The most ids that are drawn at once: those of a batch.
const MAX_DRAWN: usize = 10;

/// Draws ids; as many as a batch has entries at most.
pub(crate) fn draw_uuids(entropy: &dyn Entropy, count: usize) -> impl Iterator<Item = [u8; 16]> {
    assert!(count <= MAX_DRAWN, "a batch has at most ten entries");
    let mut bytes = [0; 16 * MAX_DRAWN];
    entropy.fill(&mut bytes[..16 * count]);
    (0..count).map(move |position| {
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[16 * position..][..16]);
        // Version 4, variant 1 (RFC 9562).
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        id
    })
}

/// Draws one id.
pub(crate) fn draw_uuid(entropy: &dyn Entropy) -> [u8; 16] {
    let mut drawn = draw_uuids(entropy, 1);
    drawn.next().expect("one was asked for")
}

#[cfg(test)]
mod tests {
    use hikyaku_cluster::Entropy;

    use super::{draw_uuid, draw_uuids};

    struct Ones;

    impl Entropy for Ones {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0xff);
        }
    }

    #[test]
    fn ids_are_random_uuids() {
        let id = draw_uuid(&Ones);
        assert_eq!(id[6] >> 4, 4);
        assert_eq!(id[8] >> 6, 0b10);
        assert_eq!(draw_uuids(&Ones, 10).count(), 10);
    }
}
