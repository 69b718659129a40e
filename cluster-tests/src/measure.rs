//! What the measuring tools read and count.

use std::time::Duration;
use std::{fs, io};

/// How long each of many calls took.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    microseconds: Vec<u32>,
}

impl Latencies {
    /// Adds one call.
    pub fn add(&mut self, latency: Duration) {
        self.microseconds
            .push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    /// Takes in the calls of another client.
    pub fn merge(&mut self, other: Self) {
        self.microseconds.extend(other.microseconds);
    }

    /// How many calls there were.
    pub fn calls(&self) -> usize {
        self.microseconds.len()
    }

    /// The latencies that these shares of the calls stayed within, in milliseconds.
    pub fn percentiles<const N: usize>(&mut self, shares: [f64; N]) -> [f64; N] {
        self.microseconds.sort_unstable();
        let last = self.microseconds.len().saturating_sub(1);
        shares.map(|share| {
            let place = (last as f64 * share).round() as usize;
            self.microseconds
                .get(place)
                .map_or(0.0, |us| f64::from(*us) / 1_000.0)
        })
    }
}

/// What a process has used since its start.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Processor time, in the program and in the kernel for it.
    pub cpu: Duration,
    /// Memory that is resident now.
    pub resident_bytes: u64,
}

impl Usage {
    /// Reads `/proc` for a process.
    ///
    /// # Errors
    /// When there is no such process, or no `/proc`.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let memory = fs::read_to_string(format!("/proc/{pid}/statm"))?;
        let not_understood = || io::Error::new(io::ErrorKind::InvalidData, "/proc not understood");
        let ticks = cpu_ticks(&stat).ok_or_else(not_understood)?;
        let pages = memory.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
        let micros = ticks * 1_000_000 / rustix::param::clock_ticks_per_second();
        Ok(Self {
            cpu: Duration::from_micros(micros),
            resident_bytes: pages.ok_or_else(not_understood)? * rustix::param::page_size() as u64,
        })
    }
}

/// `utime` and `stime`, the 14th and 15th fields. The second field is the program's name in
/// brackets and may contain anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The sum of a metric over its labels, from a page in Prometheus' text format.
pub fn metric(page: &str, name: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_calls() {
        let mut latencies = Latencies::default();
        (0..=100)
            .rev()
            .for_each(|ms| latencies.add(Duration::from_millis(ms)));
        assert_eq!(
            latencies.percentiles([0.0, 0.5, 0.99, 1.0]),
            [0.0, 50.0, 99.0, 100.0]
        );
        assert_eq!(Latencies::default().percentiles([0.5]), [0.0]);
    }

    #[test]
    fn a_program_s_name_may_contain_brackets_and_spaces() {
        let stat = "1 (a) b) c) S 1 1 1 0 -1 4194560 1 2 3 4 70 30 0 0 20 0 1";
        assert_eq!(cpu_ticks(stat), Some(100));
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(Usage::of(std::process::id()).unwrap().resident_bytes > 0);
    }

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let page =
            "# HELP a_total x\na_total{g=\"1\"} 2\na_total{g=\"}\"} 3 17\nab_total 9\nb 1.5\n";
        assert_eq!(metric(page, "a_total"), Some(5.0));
        assert_eq!(metric(page, "b"), Some(1.5));
        assert_eq!(metric(page, "c"), None);
    }
}
