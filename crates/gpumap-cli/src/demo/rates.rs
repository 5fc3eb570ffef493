//! Pairs a second by this map, by a plain `HashMap`, and by this map on a GPU, as it was measured for the documents.

use std::collections::HashMap;
use std::fmt;
use std::hash::RandomState;
use std::thread::available_parallelism;
use std::time::Instant;

use gpumap::Map;
use serde_json::{Value, json};

use super::reads::Random;
use crate::engine::Engine;
use crate::error::{Error, Mismatch, Result};
use crate::summary::grouped;

/// Runs of each step, of which the fastest counts.
const RUNS: usize = 3;

/// Reports of measurements on a GPU: with pairs in vectors of the host, and with pairs in arrays of the device.
static ON_GPU: [(&str, [&str; 3]); 2] = [
    (
        include_str!("../../data/host-h200.json"),
        [
            "8+8 vectors insert",
            "8+8 vectors get_into",
            "8+8 vectors retrieve_all_into",
        ],
    ),
    (
        include_str!("../../data/ops-h200.json"),
        [
            "8+8 sparse load 0.5 insert",
            "8+8 sparse load 0.5 get, hit",
            "8+8 sparse load 0.5 retrieve_all",
        ],
    ),
];

/// Pairs a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    insert: f64,
    get: f64,
    dump: f64,
}

impl Rates {
    const NONE: Self = Self {
        insert: 0.0,
        get: 0.0,
        dump: 0.0,
    };

    fn or_faster(self, other: Self) -> Self {
        Self {
            insert: self.insert.max(other.insert),
            get: self.get.max(other.get),
            dump: self.dump.max(other.dump),
        }
    }

    fn to_json(self) -> Value {
        json!({"insert": self.insert, "get": self.get, "dump": self.dump})
    }
}

/// What was measured here, and what a GPU would do.
pub struct Comparison {
    pairs: usize,
    /// What this map runs on.
    name: String,
    ours: Rates,
    peer: Rates,
    /// None if this map runs on a GPU.
    gpu: Vec<OnGpu>,
}

/// A measurement on a GPU.
struct OnGpu {
    device: String,
    date: String,
    pairs: u64,
    rates: Rates,
}

impl OnGpu {
    /// Reads a report; none if it has no such rows.
    fn of(report: &str, names: [&str; 3]) -> Option<Self> {
        let report: Value = serde_json::from_str(report).ok()?;
        let pairs = report["n"].as_u64()?;
        let rate = |name: &str| {
            let rows = report["rows"].as_array()?;
            let row = rows.iter().find(|row| row["name"] == name)?;
            Some(pairs as f64 / row["ms"].as_f64()? * 1e3)
        };
        let [insert, get, dump] = names.map(rate);
        Some(Self {
            device: report["device"].as_str()?.to_owned(),
            date: report["date"].as_str()?.to_owned(),
            pairs,
            rates: Rates {
                insert: insert?,
                get: get?,
                dump: dump?,
            },
        })
    }
}

impl Comparison {
    /// Measures both maps, and checks what they give.
    pub fn measure(engine: &Engine) -> Result<Self> {
        // As many as the program gives a device at once.
        let pairs = engine.batch();
        let mut random = Random(2);
        let keys: Vec<u64> = (0..pairs).map(|_| random.next()).collect();
        let values: Vec<u64> = (0..pairs as u64).collect();
        let (mut ours, mut peer) = (Rates::NONE, Rates::NONE);
        for _ in 0..RUNS {
            ours = ours.or_faster(of_map(engine, &keys, &values)?);
            peer = peer.or_faster(of_hash_map(&keys, &values)?);
        }
        let reports = ON_GPU.iter();
        let gpu = reports.filter_map(|&(report, names)| OnGpu::of(report, names));
        Ok(Self {
            pairs,
            name: match engine.is_cuda() {
                true => engine.device().name().to_owned(),
                false => match available_parallelism().map_or(1, usize::from) {
                    1 => "the CPU, 1 thread".to_owned(),
                    threads => format!("the CPU, {threads} threads"),
                },
            },
            ours,
            peer,
            gpu: match engine.is_cuda() {
                true => Vec::new(),
                false => gpu.collect(),
            },
        })
    }

    /// As an object.
    pub fn to_json(&self) -> Value {
        json!({
            "pairs": self.pairs,
            "gpumap": self.ours.to_json(),
            "hash_map": self.peer.to_json(),
        })
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ["insert", "get", "dump"];
        let [insert, get, dump] = columns;
        let title = "million pairs a second";
        write!(f, "{title:<51} {insert:>8} {get:>8} {dump:>8}")?;
        let mut row = |name: &str, Rates { insert, get, dump }: Rates| {
            write!(f, "\n  {name:<49}")?;
            for rate in [insert, get, dump] {
                let text = match rate / 1e6 {
                    rate @ 0.0..100.0 => format!("{rate:.1}"),
                    rate => grouped(rate as u64),
                };
                write!(f, " {text:>8}")?;
            }
            Ok(())
        };
        let pairs = grouped(self.pairs as u64);
        row(&format!("gpumap on {}", self.name), self.ours)?;
        row("HashMap of the standard library, 1 thread", self.peer)?;
        for (of, memory) in self.gpu.iter().zip(["the host", "the device"]) {
            let name = format!("gpumap on an {}, arrays of {memory}", of.device);
            row(&name, of.rates)?;
        }
        write!(f, "\n  {pairs} pairs of 8 + 8 bytes")?;
        if let Some(of) = self.gpu.first() {
            let (pairs, device, date) = (grouped(of.pairs), &of.device, &of.date);
            write!(f, "; {pairs} on the {device}, measured on {date}")?;
        }
        Ok(())
    }
}

fn of_map(engine: &Engine, keys: &[u64], values: &[u64]) -> Result<Rates> {
    let failed = || Error::while_doing("cannot measure the map");
    let clock = Clock::new(keys.len());
    let made = Map::builder(engine.device()).capacity(keys.len()).build();
    let map: Map<u64, u64> = made.map_err(failed())?;
    map.insert(keys, values).map_err(failed())?;
    let insert = clock.rate();
    let clock = Clock::new(keys.len());
    let found = map.get(keys).map_err(failed())?;
    let get = clock.rate();
    let clock = Clock::new(keys.len());
    let (dumped, of_dumped) = map.retrieve_all().map_err(failed())?;
    let dump = clock.rate();
    check(keys, values, &found, &dumped, &of_dumped)?;
    Ok(Rates { insert, get, dump })
}

fn of_hash_map(keys: &[u64], values: &[u64]) -> Result<Rates> {
    let clock = Clock::new(keys.len());
    let mut map = HashMap::with_capacity_and_hasher(keys.len(), RandomState::new());
    map.extend(keys.iter().copied().zip(values.iter().copied()));
    let insert = clock.rate();
    let clock = Clock::new(keys.len());
    let found: Vec<Option<u64>> = keys.iter().map(|key| map.get(key).copied()).collect();
    let get = clock.rate();
    let clock = Clock::new(keys.len());
    let (dumped, of_dumped): (Vec<u64>, Vec<u64>) = map.iter().unzip();
    let dump = clock.rate();
    check(keys, values, &found, &dumped, &of_dumped)?;
    Ok(Rates { insert, get, dump })
}

struct Clock(Instant, usize);

impl Clock {
    fn new(pairs: usize) -> Self {
        Self(Instant::now(), pairs)
    }

    /// Pairs a second since it was made.
    fn rate(&self) -> f64 {
        self.1 as f64 / self.0.elapsed().as_secs_f64().max(1e-9)
    }
}

/// Checks what a map gave for different keys with the values 0, 1, ...
fn check(
    keys: &[u64],
    values: &[u64],
    found: &[Option<u64>],
    dumped: &[u64],
    of_dumped: &[u64],
) -> Result<()> {
    let wrong = |key: u64, expected, found, by| {
        Error::SelfCheck(Mismatch::Count {
            key: key.to_string(),
            expected,
            found,
            by,
        })
    };
    for ((&key, &value), &found) in keys.iter().zip(values).zip(found) {
        if found != Some(value) {
            return Err(wrong(key, Some(value), found, "get"));
        }
    }
    let mut seen = vec![false; keys.len()];
    for (&key, &value) in dumped.iter().zip(of_dumped) {
        let place = usize::try_from(value).unwrap_or(usize::MAX);
        let is_first = seen
            .get_mut(place)
            .is_some_and(|seen| !std::mem::replace(seen, true));
        if !is_first || keys[place] != key {
            return Err(wrong(key, None, Some(value), "retrieve_all"));
        }
    }
    match dumped.len() == keys.len() {
        true => Ok(()),
        false => Err(Error::SelfCheck(Mismatch::Distinct {
            expected: keys.len(),
            found: dumped.len(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reports_have_the_rows() {
        let all = ON_GPU.map(|(report, names)| OnGpu::of(report, names).unwrap());
        for of in &all {
            assert!(of.device.contains("H200") && of.pairs == 100_000_000);
            let Rates { insert, get, dump } = of.rates;
            assert!(insert > 1e9 && get > 1e9 && dump > 1e9);
        }
        assert!(OnGpu::of(ON_GPU[0].0, ["none", "none", "none"]).is_none());
    }

    #[test]
    fn the_check_sees_what_is_wrong() {
        let (keys, values) = ([9, 8, 7], [0, 1, 2]);
        let found = values.map(Some);
        let check = |found: &[_], dumped: &[_], of_dumped: &[_]| {
            check(&keys, &values, found, dumped, of_dumped)
        };
        assert!(check(&found, &[7, 9, 8], &[2, 0, 1]).is_ok());
        for (found, dumped, of_dumped) in [
            ([Some(0), Some(1), None], &[7, 9, 8][..], &[2, 0, 1][..]),
            ([Some(0), Some(2), Some(1)], &[7, 9, 8], &[2, 0, 1]),
            (found, &[7, 9], &[2, 0]),
            (found, &[7, 7, 8], &[2, 2, 1]),
            (found, &[7, 9, 8], &[0, 2, 1]),
            (found, &[7, 9, 8], &[3, 0, 1]),
        ] {
            assert!(check(&found, dumped, of_dumped).is_err());
        }
    }
}
