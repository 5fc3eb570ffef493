//! Finds two strong loads of one unit of 16 bytes, next to each other. In the PTX it is what the source says. In
//! what an assembler makes of it, it may be one load of 16 bytes: from CUDA 12.3 to 13.5 assemblers make two
//! of a load of which one word of each half is used. The words may then be of two moments, so the halves must not belong together.

use std::collections::HashMap;

use super::count::is_strong;
use super::module::{Entry, Module};

/// Instructions from the first of two such loads to the second: 3 at most were seen.
const NEAR: usize = 16;

/// A strong load of less than 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Which instruction it is.
    pub place: usize,
    /// What its address is relative to.
    pub base: String,
    /// Bytes from there.
    pub offset: i64,
    /// How many it loads.
    pub bytes: i64,
}

/// How many pairs of loads there are, by the bytes of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(HashMap<(i64, i64), u32>);

impl Pairs {
    /// Of loads in the order of their places.
    pub fn of(loads: impl IntoIterator<Item = Load>) -> Self {
        let mut pairs = Pairs::default();
        let mut before: HashMap<(String, i64), Load> = HashMap::new();
        for load in loads {
            let unit = (load.base.clone(), load.offset.div_euclid(16));
            match before.remove(&unit) {
                Some(first) if first.offset != load.offset && load.place - first.place <= NEAR => {
                    let sizes = (first.bytes.min(load.bytes), first.bytes.max(load.bytes));
                    *pairs.0.entry(sizes).or_default() += 1;
                }
                _ => drop(before.insert(unit, load)),
            }
        }
        pairs
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many more there are than in `others`.
    pub fn beyond(&self, others: &Pairs) -> u32 {
        let beyond = |(sizes, &count): (_, &u32)| {
            count.saturating_sub(others.0.get(sizes).copied().unwrap_or(0))
        };
        self.0.iter().map(beyond).sum()
    }
}

/// Those that the PTX of a kernel has.
pub fn pairs(module: &Module, entry: &Entry) -> Pairs {
    // Registers that were last written as the sum of another one and a number.
    let mut sums: HashMap<&str, (&str, i64)> = HashMap::new();
    let mut loads = Vec::new();
    for instruction in module.instructions(entry) {
        let parts: Vec<_> = instruction.opcode.split('.').collect();
        if parts[0] == "ld" && is_strong(&parts) {
            let address = instruction.operands.split(['[', ']']).nth(1);
            let (base, offset) = relative(address.unwrap_or_default());
            let (base, more) = sums.get(base).copied().unwrap_or((base, 0));
            loads.extend(parts.last().and_then(|kind| bytes(kind)).map(|bytes| Load {
                // What lies between two loads may leave the code: only the loads count.
                place: loads.len(),
                base: base.to_owned(),
                offset: offset + more,
                bytes,
            }));
        }
        let operands: Vec<_> = instruction.operands.split(',').map(str::trim).collect();
        let sum = match (instruction.opcode, &operands[..]) {
            ("add.s64", &[sum, base, number]) => number.parse::<i64>().ok().map(|number| {
                let (base, before) = sums.get(base).copied().unwrap_or((base, 0));
                (sum, (base, before + number))
            }),
            _ => None,
        };
        sums.remove(operands[0]);
        sums.extend(sum);
    }
    Pairs::of(loads)
}

/// Base and offset of an address as PTX writes it.
fn relative(address: &str) -> (&str, i64) {
    let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
    (base.trim(), offset.trim().parse().unwrap_or(0))
}

/// The bytes of a type, if they are 4 or 8.
fn bytes(kind: &str) -> Option<i64> {
    match kind.trim_start_matches(|c: char| c.is_ascii_alphabetic()) {
        "32" => Some(4),
        "64" => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(place: usize, base: &str, offset: i64, bytes: i64) -> Load {
        Load {
            place,
            base: base.to_owned(),
            offset,
            bytes,
        }
    }

    #[test]
    fn loads_of_one_unit_next_to_each_other_are_a_pair() {
        let pairs = |loads: &[Load]| Pairs::of(loads.iter().cloned()).beyond(&Pairs::default());
        assert_eq!(pairs(&[load(0, "R4", 0, 4), load(1, "R4", 8, 4)]), 1);
        assert_eq!(pairs(&[load(0, "R4", -16, 8), load(3, "R4", -8, 8)]), 1);
        // Four loads are two pairs, and one word read again is none.
        let twice = [0, 8, 0, 8].map(|offset| load(0, "R4", offset, 4));
        assert_eq!(pairs(&twice), 2);
        assert_eq!(pairs(&[load(0, "R4", 0, 4), load(1, "R4", 0, 4)]), 0);
        for other in [
            load(1, "R6", 8, 4),
            load(1, "R4", 16, 4),
            load(40, "R4", 8, 4),
        ] {
            assert_eq!(pairs(&[load(0, "R4", 0, 4), other]), 0);
        }
    }

    #[test]
    fn pairs_of_the_ptx_are_not_the_assemblers() {
        let text = ".visible .entry k()\n{\nld.relaxed.gpu.global.b64 %rd3, [%rd1];\n\
            add.s64 %rd2, %rd1, 8;\nld.relaxed.gpu.global.b64 %rd4, [%rd2];\n\
            ld.relaxed.gpu.global.b128 %q, [%rd1+16];\nret;\n}\n";
        let module = Module::parse(text).unwrap();
        let source = pairs(&module, &module.entries[0]);
        let same = Pairs::of([load(0, "R4", 0, 8), load(1, "R4", 8, 8)]);
        assert_eq!(same.beyond(&source), 0);
        assert_eq!(same.beyond(&Pairs::default()), 1);
        // What it has are words of 8 bytes.
        let torn = Pairs::of([load(0, "R4", 0, 4), load(1, "R4", 8, 4)]);
        assert_eq!(torn.beyond(&source), 1);
    }
}
