//! The largest of some values in a range, while values rise: a segment tree.

use std::ops::Range;

/// Values by position, each with whom it is of.
#[derive(Debug)]
pub(super) struct Maxima {
    size: usize,
    /// Node `n` covers `2n` and `2n + 1`; the values themselves begin at `size`.
    nodes: Vec<(u64, usize)>,
}

impl Maxima {
    /// So many zeros.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            nodes: vec![(0, 0); 2 * size],
        }
    }

    /// Raises the value at a position, unless it is higher already.
    pub fn raise(&mut self, position: usize, value: u64, of: usize) {
        let mut node = position + self.size;
        while node > 0 {
            self.nodes[node] = self.nodes[node].max((value, of));
            node /= 2;
        }
    }

    /// The largest value in a range and whom it is of; zero for an empty range.
    pub fn largest(&self, range: Range<usize>) -> (u64, usize) {
        let (mut from, mut to) = (range.start + self.size, range.end + self.size);
        let mut largest = (0, 0);
        while from < to {
            if from % 2 == 1 {
                largest = largest.max(self.nodes[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                largest = largest.max(self.nodes[to]);
            }
            from /= 2;
            to /= 2;
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_scan() {
        let mut maxima = Maxima::new(13);
        let mut values = [0_u64; 13];
        for step in 0..200_u64 {
            let (position, value) = ((step * 7 % 13) as usize, step * 31 % 97);
            maxima.raise(position, value, position);
            values[position] = values[position].max(value);
            for from in 0..13 {
                for to in from..=13 {
                    let scanned = values[from..to].iter().max().copied().unwrap_or(0);
                    assert_eq!(maxima.largest(from..to).0, scanned, "{from}..{to}");
                }
            }
        }
    }
}
