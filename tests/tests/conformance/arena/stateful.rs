//! Random sequences of verbs against a `HashMap`.

use std::collections::HashMap;

use gpumap::executor::Config;
use gpumap::{Device, Key, Map, Value};
use gpumap_kernels::kernels::Encoding;
use gpumap_tests::blob::{assert_cells_add_up, blobs, tag, tags};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{Halves64, nth_key};
use gpumap_tests::{Target, key, key_bits, on_blobs_by_row, on_every_blob};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// A map and what it must hold.
struct Run<K: Key, V: Value> {
    map: Map<K, V>,
    model: HashMap<u64, u64>,
    rng: StdRng,
    /// How many keys there are.
    keys: u64,
    /// The tag of the next value.
    next: u64,
}

impl<K: Key, V: Value> Run<K, V> {
    /// Keys of a batch; some are reserved words, some come twice.
    fn batch(&mut self, most: usize) -> Vec<K> {
        let len = self.rng.random_range(0..=most);
        let pick = |_| match self.rng.random_range(0..self.keys + 3) {
            reserved if reserved < 3 => key(u64::MAX - reserved),
            i => nth_key(i),
        };
        (0..len).map(pick).collect()
    }

    /// As many tags that were not used yet.
    fn tags(&mut self, len: usize) -> Vec<u64> {
        let first = self.next;
        self.next += len as u64;
        (first..self.next).collect()
    }

    fn step(&mut self, most: usize) {
        let batch = self.batch(most);
        let tags = self.tags(batch.len());
        let values: Vec<V> = blobs(tags.iter().copied());
        let before = self.model.len();
        match self.rng.next_u32() % 17 {
            0..5 => {
                let new = self.map.upsert(&batch, &values).unwrap();
                self.learn(&batch, &tags, true);
                assert_eq!(new, self.model.len() - before);
            }
            5..8 => {
                let new = self.map.insert(&batch, &values).unwrap();
                self.learn(&batch, &tags, false);
                assert_eq!(new, self.model.len() - before);
            }
            8..10 => {
                let held = self.map.get_or_insert(&batch, &values).unwrap();
                self.learn(&batch, &tags, false);
                for (k, v) in batch.iter().zip(&held) {
                    assert_eq!(tag(v), self.model[&key_bits(*k)]);
                }
            }
            10..12 => {
                let removed = self.map.remove(&batch).unwrap();
                for k in &batch {
                    self.model.remove(&key_bits(*k));
                }
                assert_eq!(removed, before - self.model.len());
            }
            12 => {
                let mut removed = HashMap::new();
                for (k, v) in batch.iter().zip(self.map.take(&batch).unwrap()) {
                    if let Some(v) = v {
                        assert_eq!(removed.insert(key_bits(*k), tag(&v)), None);
                    }
                }
                for k in &batch {
                    let taken = self.model.remove(&key_bits(*k));
                    assert!(taken.is_none() || removed.remove(&key_bits(*k)) == taken);
                }
                assert!(removed.is_empty());
            }
            13 => {
                for (k, v) in batch.iter().zip(self.map.get(&batch).unwrap()) {
                    assert_eq!(v.as_ref().map(tag), self.model.get(&key_bits(*k)).copied());
                }
            }
            14 => {
                let pairs = batch.iter().zip(&tags);
                let (there, tags): (Vec<K>, Vec<u64>) = pairs
                    .filter(|(k, _)| self.model.contains_key(&key_bits(**k)))
                    .unzip();
                let updated = self.map.update(&batch, &values).unwrap();
                self.learn(&there, &tags, true);
                assert_eq!(updated, there.len());
            }
            15 => match self.rng.next_u32() % 8 {
                0 => {
                    self.map.clear().unwrap();
                    self.model.clear();
                }
                1 => self.map.shrink_to_fit().unwrap(),
                2 => {
                    self.map.retain_keys(&batch).unwrap();
                    let kept: Vec<u64> = batch.iter().map(|&k| key_bits(k)).collect();
                    self.model.retain(|k, _| kept.contains(k));
                }
                3 => self.map.reserve(most).unwrap(),
                4 => {
                    let removed = self.map.retain(|_, v| tag(v) % 3 != 0).unwrap();
                    self.model.retain(|_, tag| *tag % 3 != 0);
                    assert_eq!(removed, before - self.model.len());
                }
                _ => {}
            },
            _ => self.check(),
        }
        assert_eq!(self.map.len(), self.model.len());
    }

    /// Takes over what a batch did. Which of the values of one key is stored is not known, so the map
    /// says; it must be one of the batch.
    fn learn(&mut self, batch: &[K], tags: &[u64], replaces: bool) {
        let held = self.map.get(batch).unwrap();
        let mut offers: HashMap<u64, Vec<u64>> = HashMap::new();
        for (k, tag) in batch.iter().zip(tags) {
            offers.entry(key_bits(*k)).or_default().push(*tag);
        }
        for (k, v) in batch.iter().zip(&held) {
            let (bits, tag) = (key_bits(*k), tag(v.as_ref().expect("just stored")));
            let kept = self.model.get(&bits).copied().filter(|_| !replaces);
            match kept {
                Some(kept) => assert_eq!(tag, kept),
                None => assert!(offers[&bits].contains(&tag), "a value never stored"),
            }
        }
        for (k, v) in batch.iter().zip(&held) {
            self.model.insert(key_bits(*k), v.as_ref().map_or(0, tag));
        }
    }

    fn check(&self) {
        assert_eq!(tags(&self.map), self.model);
        assert_cells_add_up(&self.map);
    }
}

/// Runs a sequence.
fn sequence<K: Key, V: Value>(on: &Target, seed: u64, steps: usize, most: usize) {
    let mut run = Run::<K, V> {
        map: on.map(0),
        model: HashMap::new(),
        rng: StdRng::seed_from_u64(seed),
        keys: 2 * most as u64,
        next: 1,
    };
    noting(&format!("seed {seed}"), || {
        for _ in 0..steps {
            run.step(most);
        }
        run.check();
    });
}

#[test]
fn random_sequences() {
    fn body<K: Key, V: Value>(on: &Target) {
        for seed in 0..3 {
            sequence::<K, V>(on, seed, on.n(80, 200), on.n(200, 20_000));
        }
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn random_sequences_under_random_schedules() {
    // Lanes of one launch meet in every order: equal keys of a batch exchange and withdraw each other's
    // ids. On the CPU executor whatever the target.
    for seed in 0..20 {
        for encoding in [Encoding::Wide, Encoding::Split] {
            let on = Target::new(Device::cpu_with(Config::random(seed)), Some(encoding));
            sequence::<u32, [u64; 3]>(&on, seed, 40, 70);
            sequence::<u64, [u64; 2]>(&on, seed, 40, 70);
            sequence::<Halves64, [u64; 3]>(&on, seed, 40, 70);
        }
    }
}
