//! What the model says of outcomes, and how a device counts them.

use std::collections::BTreeSet;
use std::fmt;

use gpumap_axioms::program::Value;
use gpumap_axioms::{Outcome, Program, Reading, outcomes, protocols};
use gpumap_test_kernels::litmus::{BUSY, EMPTY, KEY, LANES, MOST_VALUES, TOMBSTONE};

use super::Shape;

/// What the model says of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The shape may come to it.
    Allowed,
    /// Of a control: it may come to it, and the shape may not.
    Weak,
    /// It may not come to it.
    Forbidden,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Allowed => "allowed",
            Self::Weak => "weak",
            Self::Forbidden => "FORBIDDEN",
        })
    }
}

/// What each column has: `None` is a register whose instruction did not run.
type Row = Vec<Option<u64>>;

/// The outcomes of a shape, or of its control.
#[derive(Clone, Debug)]
pub struct Judge {
    program: Program,
    names: &'static [&'static str],
    /// Which register or cell each column is, as the kernel that counts has it.
    of: Vec<u32>,
    /// The values of each column that some outcome has.
    known: Vec<Vec<u64>>,
    /// What the program may come to.
    allowed: BTreeSet<Row>,
    /// What the shape may come to, if this is its control.
    strong: Option<BTreeSet<Row>>,
}

/// What a value is in memory.
fn bits(program: &Program, value: Value) -> u64 {
    let Some((name, more)) = program.name_of(value) else {
        return value as u64;
    };
    let word = match name {
        "E" => EMPTY,
        "T" => TOMBSTONE,
        "B" => BUSY,
        "K" => KEY,
        _ => panic!("no bits are known for {name}"),
    };
    word.wrapping_add(more as u64)
}

impl Judge {
    /// Of this shape.
    ///
    /// # Panics
    /// If there is no such protocol, or no such control of it.
    pub fn new(shape: &Shape, of_control: bool) -> Self {
        let protocol = protocols::named(shape.protocol);
        let mut weakened = protocol.weakened.iter();
        let weakened = weakened.find(|w| w.is_needed && w.what == shape.control);
        let weakened = weakened.unwrap_or_else(|| panic!("no control {}", shape.control));
        let (program, _) = protocol.parsed();
        let (control, _) = protocol.weakened(weakened);
        let rows = |program: &Program| -> BTreeSet<Row> {
            let row = |outcome: &Outcome| {
                let value = |name: &&str| program.value(outcome, name).map(|v| bits(program, v));
                shape.columns.iter().map(value).collect()
            };
            outcomes(program, Reading::Whole)
                .all
                .iter()
                .map(row)
                .collect()
        };
        let (strong, weak) = (rows(&program), rows(&control));
        let column = |c: usize| {
            let values: BTreeSet<_> = strong.union(&weak).filter_map(|row| row[c]).collect();
            assert!(
                values.len() <= MOST_VALUES,
                "{} has too many values",
                shape.columns[c]
            );
            values.into_iter().collect()
        };
        let names = program.register_names();
        let of = shape.columns.iter().map(|name| {
            let register = names.iter().position(|register| register == name);
            let number = register.or_else(|| Some(names.len() + program.cell_number(name)?));
            number.unwrap_or_else(|| panic!("no register or cell {name}")) as u32
        });
        Self {
            of: of.collect(),
            names: shape.columns,
            known: (0..shape.columns.len()).map(column).collect(),
            allowed: if of_control { weak } else { strong.clone() },
            strong: of_control.then_some(strong),
            program,
        }
    }

    /// Words of a row of the kernel.
    pub fn registers(&self) -> usize {
        self.program.registers()
    }

    /// How many places an instance has.
    pub fn places(&self) -> usize {
        self.program.places().len()
    }

    /// How many columns are counted.
    pub fn width(&self) -> usize {
        self.of.len()
    }

    /// How many outcomes are counted, those included that cannot be.
    pub fn outcomes(&self) -> usize {
        self.known.iter().map(|known| known.len() + 2).product()
    }

    /// Each cell as the kernel that counts wants it: three words. Of a shape by warps the last place has a word for each
    /// lane.
    pub fn cells(&self, region: u64, by_warp: bool) -> Vec<u64> {
        let mut cells = Vec::new();
        let places = self.program.places();
        for (p, &(first, len)) in places.iter().enumerate() {
            // Slots of 4 + 4 bytes, or words.
            let width = if len == 4 { 4 } else { 8 };
            let is_per_lane = by_warp && p + 1 == places.len();
            for c in 0..if is_per_lane { LANES as usize } else { len } {
                let value = self.program.first[first + c % len];
                cells.push(p as u64 * region + c as u64 * width);
                cells.push(width);
                cells.push(bits(&self.program, value));
            }
        }
        cells
    }

    /// Each column as the kernel that counts wants it.
    pub fn columns(&self) -> Vec<u64> {
        let mut words = Vec::new();
        for (of, known) in self.of.iter().zip(&self.known) {
            // Two words of 32 bits.
            words.push(u64::from(*of) | (known.len() as u64) << 32);
            words.extend((0..MOST_VALUES).map(|i| known.get(i).copied().unwrap_or(0)));
        }
        words
    }

    /// What the model says of each outcome that was counted.
    pub fn seen(&self, counts: &[u64]) -> Vec<(String, u64, Verdict)> {
        let counted = counts.iter().enumerate().filter(|&(_, &count)| count != 0);
        counted
            .map(|(number, &count)| {
                let (shown, verdict) = self.judge(number);
                (shown, count, verdict)
            })
            .collect()
    }

    /// The outcome of this number as text, and what the model says of it.
    fn judge(&self, mut number: usize) -> (String, Verdict) {
        let mut row = Vec::new();
        let mut shown = Vec::new();
        let mut is_known = true;
        for (name, known) in self.names.iter().zip(&self.known).rev() {
            let digit = number % (known.len() + 2);
            number /= known.len() + 2;
            let value = known.get(digit).copied();
            let what = match value {
                Some(EMPTY) => "E".to_owned(),
                Some(TOMBSTONE) => "T".to_owned(),
                Some(BUSY) => "B".to_owned(),
                Some(value) => value.to_string(),
                None if digit == known.len() => "-".to_owned(),
                None => {
                    is_known = false;
                    "?".to_owned()
                }
            };
            row.push(value);
            shown.push(format!("{name}={what}"));
        }
        row.reverse();
        shown.reverse();
        let verdict = match &self.strong {
            _ if !is_known || !self.allowed.contains(&row) => Verdict::Forbidden,
            Some(strong) if !strong.contains(&row) => Verdict::Weak,
            _ => Verdict::Allowed,
        };
        (shown.join(" "), verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::litmus::SHAPES;

    /// The number of a row of digits, as the kernel makes it.
    fn number(judge: &Judge, digits: &[usize]) -> usize {
        let radixes = judge.known.iter().map(|known| known.len() + 2);
        radixes
            .zip(digits)
            .fold(0, |number, (radix, digit)| number * radix + digit)
    }

    #[test]
    fn each_shape_allows_something_and_its_control_more() {
        for shape in &SHAPES {
            let (judge, control) = (shape.judge(false), shape.judge(true));
            let verdicts = |judge: &Judge, verdict| {
                let all = (0..judge.outcomes()).map(|n| judge.judge(n).1);
                all.filter(|&its| its == verdict).count()
            };
            let allowed = verdicts(&judge, Verdict::Allowed);
            assert_eq!(allowed, judge.allowed.len(), "{}", shape.protocol);
            assert!(
                allowed > 1 && verdicts(&judge, Verdict::Weak) == 0,
                "{}",
                shape.protocol
            );
            assert!(verdicts(&control, Verdict::Weak) > 0, "{}", shape.protocol);
            assert!(
                judge.outcomes() < 1 << 20,
                "{}: {}",
                shape.protocol,
                judge.outcomes()
            );
            assert_eq!(judge.outcomes(), control.outcomes());
        }
    }

    #[test]
    fn torn_and_unknown_pairs_are_forbidden() {
        let shape = SHAPES
            .iter()
            .find(|shape| shape.protocol == "look-back, 16 bytes")
            .unwrap();
        let judge = shape.judge(false);
        // Columns are v, f and both cells; values 0 and 5, 0 and 1.
        assert_eq!(judge.known, [vec![0, 5], vec![0, 1], vec![5], vec![1]]);
        for (digits, shown, verdict) in [
            (
                [1, 1, 0, 0],
                "v=5 f=1 state.0=5 state.1=1",
                Verdict::Allowed,
            ),
            (
                [0, 0, 0, 0],
                "v=0 f=0 state.0=5 state.1=1",
                Verdict::Allowed,
            ),
            (
                [0, 1, 0, 0],
                "v=0 f=1 state.0=5 state.1=1",
                Verdict::Forbidden,
            ),
            (
                [3, 1, 0, 0],
                "v=? f=1 state.0=5 state.1=1",
                Verdict::Forbidden,
            ),
            (
                [2, 1, 0, 0],
                "v=- f=1 state.0=5 state.1=1",
                Verdict::Forbidden,
            ),
            (
                [1, 1, 2, 0],
                "v=5 f=1 state.0=? state.1=1",
                Verdict::Forbidden,
            ),
        ] {
            let at = number(&judge, &digits);
            assert_eq!(judge.judge(at), (shown.to_owned(), verdict));
            let control = shape.judge(true);
            let of_control = if digits == [0, 1, 0, 0] {
                Verdict::Weak
            } else {
                verdict
            };
            assert_eq!(control.judge(at).1, of_control, "{shown}");
        }
    }
}
