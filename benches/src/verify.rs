//! Whether what comes back is what was stored: the value of a pair is its number.

use anyhow::{Result, ensure};

use crate::data::{Word, strided};

/// The values of all keys in the order in which they are looked up, plus what was added to each.
pub fn values<V: Word>(values: &[V], added: u64) -> Result<()> {
    let n = values.len() as u64;
    let mut expected = (0..n).map(|i| V::dense(strided(i, n) + added));
    let right = values.iter().all(|&value| Some(value) == expected.next());
    ensure!(right, "a wrong value");
    Ok(())
}

/// Each key is there, or none is.
pub fn found(found: &[u8], there: bool) -> Result<()> {
    let right = found.iter().all(|&found| found == u8::from(there));
    let expected = if there { "there" } else { "absent" };
    ensure!(right, "not every key is {expected}");
    Ok(())
}

/// Every pair was dumped once, and whole.
pub fn dump<K: Word, V: Word>(keys: &[K], values: &[V], key_of: impl Fn(u64) -> K) -> Result<()> {
    let mut seen = vec![false; keys.len()];
    for (&key, &value) in keys.iter().zip(values) {
        let i = value.number();
        let seen = seen.get_mut(i as usize);
        ensure!(
            seen.is_some() && (key_of(i), V::dense(i)) == (key, value),
            "retrieve_all mixed pairs up"
        );
        let again = seen.is_some_and(|seen| std::mem::replace(seen, true));
        ensure!(!again, "retrieve_all repeated a pair");
    }
    Ok(())
}
