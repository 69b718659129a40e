//! What happens to a server, and when: drawn from the seed before the run.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use turmoil::Sim;

const CLIENTS: &str = "clients";

/// Faults begin in this time and are over soon after it, so that a run can end.
const STORMY: Duration = Duration::from_secs(4);

/// At least this many kills in a run.
const FEWEST_KILLS: u32 = 2;
const MOST_KILLS: u32 = 5;
const MOST_HOLDS: u32 = 2;
const MOST_CUTS: u32 = 3;

#[derive(Debug, Clone, Copy)]
enum Gust {
    /// The server's process ends, with all that it did not write.
    Kill,
    /// It starts again.
    Start,
    /// Nothing arrives; it is not lost either.
    Hold,
    /// What was held arrives.
    Release,
    /// Whatever is sent is lost: answers too, whose effects are not.
    Cut,
    /// What is sent from now on arrives.
    Mend,
}

/// The gusts still to come.
#[derive(Debug)]
pub struct Weather {
    /// In the order of time, the next one last.
    gusts: Vec<(Duration, Gust)>,
    kills: u32,
}

impl Weather {
    /// The weather of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut gusts = Vec::new();
        for _ in 0..rng.random_range(FEWEST_KILLS..=MOST_KILLS) {
            pair(&mut rng, &mut gusts, Gust::Kill, Gust::Start, 1_000);
        }
        for _ in 0..rng.random_range(0..=MOST_HOLDS) {
            pair(&mut rng, &mut gusts, Gust::Hold, Gust::Release, 2_000);
        }
        for _ in 0..rng.random_range(0..=MOST_CUTS) {
            pair(&mut rng, &mut gusts, Gust::Cut, Gust::Mend, 500);
        }
        gusts.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self { gusts, kills: 0 }
    }

    /// How often the server was killed.
    pub fn kills(&self) -> u32 {
        self.kills
    }

    /// Lets everything happen whose time has come.
    pub fn blow(&mut self, sim: &mut Sim<'_>, server: &str) {
        while self
            .gusts
            .last()
            .is_some_and(|(at, _)| *at <= sim.elapsed())
        {
            let Some((_, gust)) = self.gusts.pop() else {
                return;
            };
            match gust {
                Gust::Kill if sim.is_host_running(server) => {
                    sim.crash(server);
                    self.kills += 1;
                }
                Gust::Start if !sim.is_host_running(server) => sim.bounce(server),
                Gust::Kill | Gust::Start => {}
                Gust::Hold => sim.hold(CLIENTS, server),
                Gust::Release => sim.release(CLIENTS, server),
                Gust::Cut => sim.partition(CLIENTS, server),
                Gust::Mend => sim.repair(CLIENTS, server),
            }
        }
    }
}

/// A gust that begins somewhere in the stormy time, and its end.
fn pair(
    rng: &mut StdRng,
    gusts: &mut Vec<(Duration, Gust)>,
    begin: Gust,
    end: Gust,
    longest_ms: u64,
) {
    let at = rng.random_range(50..STORMY.as_millis() as u64);
    let lasts = rng.random_range(20..longest_ms);
    gusts.push((Duration::from_millis(at), begin));
    gusts.push((Duration::from_millis(at + lasts), end));
}
