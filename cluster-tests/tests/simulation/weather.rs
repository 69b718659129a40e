//! What happens to servers and to the network, and when: drawn from the seed before the run.

use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use turmoil::Sim;

use super::clients::CLIENTS;

/// How rough it may get.
#[derive(Debug, Clone)]
pub struct Climate {
    /// Faults begin in this time, counted from the start.
    pub stormy_ms: Range<u64>,
    /// How many servers are killed.
    pub kills: Range<u32>,
    /// How long each stays down.
    pub down_ms: Range<u64>,
    /// How often a link holds its breath, and how often one loses all it carries.
    pub faults_of_links: Range<u32>,
    /// How long that lasts.
    pub faulty_ms: Range<u64>,
}

/// What is left of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process ended; the machine went on.
    Process,
    /// The machine lost its power.
    Power,
}

/// What became of a server.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// It was killed.
    Killed(&'static str, Crash),
    /// It was started again.
    Started(&'static str),
}

#[derive(Debug, Clone, Copy)]
enum Gust {
    Kill(&'static str, Crash),
    Start(&'static str),
    /// Nothing arrives; it is not lost either.
    Hold(&'static str, &'static str),
    Release(&'static str, &'static str),
    /// Whatever is sent is lost: answers too, whose effects are not.
    Cut(&'static str, &'static str),
    Mend(&'static str, &'static str),
}

/// The gusts still to come.
#[derive(Debug)]
pub struct Weather {
    /// In the order of time, the next one last.
    gusts: Vec<(Duration, Gust)>,
    kills: u32,
}

impl Weather {
    /// The weather of a seed over these servers and the clients.
    pub fn of(seed: u64, climate: &Climate, servers: &[&'static str]) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut gusts = Vec::new();
        let mut span = |rng: &mut StdRng, lasts: &Range<u64>, begin: Gust, end: Gust| {
            let from = rng.random_range(climate.stormy_ms.clone());
            let until = from + rng.random_range(lasts.clone());
            gusts.push((Duration::from_millis(from), begin));
            gusts.push((Duration::from_millis(until), end));
        };
        for _ in 0..rng.random_range(climate.kills.clone()) {
            let server = servers[rng.random_range(0..servers.len())];
            let crash = if rng.random_ratio(1, 2) {
                Crash::Power
            } else {
                Crash::Process
            };
            span(
                &mut rng,
                &climate.down_ms,
                Gust::Kill(server, crash),
                Gust::Start(server),
            );
        }
        for _ in 0..rng.random_range(climate.faults_of_links.clone()) {
            let (one, other) = link(&mut rng, servers);
            span(
                &mut rng,
                &climate.faulty_ms,
                Gust::Hold(one, other),
                Gust::Release(one, other),
            );
        }
        for _ in 0..rng.random_range(climate.faults_of_links.clone()) {
            let (one, other) = link(&mut rng, servers);
            span(
                &mut rng,
                &climate.faulty_ms,
                Gust::Cut(one, other),
                Gust::Mend(one, other),
            );
        }
        gusts.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        Self { gusts, kills: 0 }
    }

    /// How many servers were killed by now.
    pub fn kills(&self) -> u32 {
        self.kills
    }

    /// Lets everything happen whose time has come; `changed` hears of each server that was killed or
    /// started.
    pub fn blow(&mut self, sim: &mut Sim<'_>, mut changed: impl FnMut(Change)) {
        while self
            .gusts
            .last()
            .is_some_and(|(at, _)| *at <= sim.elapsed())
        {
            let Some((_, gust)) = self.gusts.pop() else {
                return;
            };
            match gust {
                Gust::Kill(server, crash) if sim.is_host_running(server) => {
                    sim.crash(server);
                    changed(Change::Killed(server, crash));
                    self.kills += 1;
                }
                Gust::Start(server) if !sim.is_host_running(server) => {
                    sim.bounce(server);
                    changed(Change::Started(server));
                }
                Gust::Kill(..) | Gust::Start(_) => {}
                Gust::Hold(one, other) => sim.hold(one, other),
                Gust::Release(one, other) => sim.release(one, other),
                Gust::Cut(one, other) => sim.partition(one, other),
                Gust::Mend(one, other) => sim.repair(one, other),
            }
        }
    }
}

/// Two different hosts, at least one of them a server.
fn link(rng: &mut StdRng, servers: &[&'static str]) -> (&'static str, &'static str) {
    let one = rng.random_range(0..servers.len());
    let other = (one + rng.random_range(1..=servers.len())) % (servers.len() + 1);
    (servers[one], servers.get(other).copied().unwrap_or(CLIENTS))
}
