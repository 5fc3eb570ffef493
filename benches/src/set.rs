//! The verbs of a set, each beside its ceiling: the rows of `8+8`, without the values.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map, Stream};

use crate::ceilings::Ceilings;
use crate::data::{BenchKey, strided};
use crate::measure::time;
use crate::ops::Case;
use crate::report::{Report, Row};

/// Measures and verifies a set of keys in one case.
pub fn run<K: BenchKey>(
    stream: &Stream,
    case: Case,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let n = case.n;
    let count = n as u64;
    let kind = format!("{:?}", case.keys).to_lowercase();
    let name = |verb: &str| format!("{}+0 {kind} load {} {verb}", size_of::<K>(), case.load);

    let stored: Vec<K> = (0..count).map(|i| case.key(i)).collect();
    let asked: Vec<K> = (0..count)
        .map(|i| stored[strided(i, count) as usize])
        .collect();
    let absent: Vec<K> = (count..2 * count).map(|i| case.key(i)).collect();
    let keys = Buffer::from_slice(stream, &stored)?;
    let asked = Buffer::from_slice(stream, &asked)?;
    let absent = Buffer::from_slice(stream, &absent)?;
    drop(stored);

    let set: Map<K, ()> = Map::builder(stream.device())
        .capacity(n)
        .max_load_factor(case.load)
        .submaps(case.submaps)
        .hash_seed(1)
        .build()?;

    let mut new = 0;
    let insert = time(
        case.runs,
        || Ok(set.clear()?),
        || {
            new = set.insert_keys(&keys)?;
            Ok(())
        },
    )?;
    ensure!(new == n && set.len() == n, "insert stored {new} of {n}");
    report.add(Row::op(name("insert"), insert, n, ceilings.cas_64));

    let again = time(
        case.runs,
        || Ok(()),
        || {
            new = set.insert_keys(&asked)?;
            Ok(())
        },
    )?;
    ensure!(new == 0, "insert of present keys stored {new}");
    report.add(Row::op(
        name("insert, all present"),
        again,
        n,
        ceilings.gather,
    ));

    let mut found = Buffer::<u8>::zeroed(stream, n)?;
    for (verb, keys, there) in [("contains, hit", &asked, 1), ("contains, miss", &absent, 0)] {
        let contains = time(
            case.runs,
            || Ok(()),
            || Ok(set.contains_into(keys, &mut found)?),
        )?;
        let right = found.to_vec()?.iter().all(|&f| f == there);
        ensure!(right, "{verb}: a wrong answer");
        report.add(Row::op(name(verb), contains, n, ceilings.gather));
    }

    let mut out = Buffer::<K>::zeroed(stream, n)?;
    let mut retrieved = 0;
    let dump = time(
        case.runs,
        || Ok(()),
        || {
            retrieved = set.retrieve_keys_into(&mut out)?;
            Ok(())
        },
    )?;
    ensure!(retrieved == n, "retrieve_all reported {retrieved} of {n}");
    // As many as there are, all different, and each of them one that was stored.
    let others = Map::<K, ()>::with_capacity(stream.device(), n)?;
    ensure!(others.insert_keys(&out)? == n, "a key was dumped twice");
    set.contains_into(&out, &mut found)?;
    let right = found.to_vec()?.iter().all(|&f| f == 1);
    ensure!(right, "a foreign key was dumped");
    drop(others);
    let moved = (set.slots() * 8 + n * size_of::<K>()) as f64;
    let ceiling = moved / ceilings.copy * 1e3;
    report.add(Row::op(name("retrieve_all"), dump, set.slots(), ceiling).moving(moved));

    let mut removed = 0;
    let remove = time(
        case.runs,
        || {
            set.clear()?;
            set.insert_keys(&keys)?;
            Ok(())
        },
        || {
            removed = set.remove(&asked)?;
            Ok(())
        },
    )?;
    ensure!(
        removed == n && set.is_empty(),
        "remove took {removed} of {n}"
    );
    report.add(Row::op(name("remove"), remove, n, ceilings.cas_64));
    Ok(())
}
