//! Exact de-duplication: of equal documents in batches of a crawl, the first is kept. Their 128-bit hashes are the keys of a
//! `RowMap`, so a document is a row number, and no text is on the device.
//!
//! `cargo run -p gpumap --example documents`

use std::collections::HashSet;

use gpumap::primitives::Primitives;
use gpumap::{Device, Result, RowMap};
use twox_hash::XxHash3_128;

/// One batch of a crawl. Many pages come again, in the same batch and in others.
fn batch(day: usize) -> Vec<String> {
    let page = |i: usize| (i * i + 31 * day) % 4_001;
    let text = |page| format!("Page {page}. {}", "All work and no play. ".repeat(page % 7));
    (0..5_000).map(page).map(text).collect()
}

/// The keys of documents. Two different ones of a billion have one hash with a probability of less than 2⁻⁶⁹; for texts that
/// an adversary writes, take a cryptographic hash.
fn hashes(documents: &[String]) -> Vec<u128> {
    let hash = |text: &String| XxHash3_128::oneshot(text.as_bytes());
    documents.iter().map(hash).collect()
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");

    // Batches as they come: the map says which documents no batch had before.
    let seen = RowMap::<u128>::new(&device)?;
    let mut kept = Vec::new();
    for day in 0..4 {
        let documents = batch(day);
        let (mut rows, mut new) = (vec![0; documents.len()], vec![0; documents.len()]);
        let fresh = seen.insert_with_outcome_into(&hashes(&documents), &mut rows, &mut new)?;
        println!(
            "day {day}: {fresh} of {} documents are new",
            documents.len()
        );
        let documents = documents.into_iter().zip(new);
        kept.extend(documents.filter_map(|(text, new)| (new == 1).then_some(text)));
    }
    assert_eq!(kept.len(), seen.len());

    // The texts say the same, and they were kept in the order in which they came.
    let mut texts = HashSet::new();
    let all = (0..4).flat_map(batch);
    let expected: Vec<String> = all.filter(|text| texts.insert(text.clone())).collect();
    assert_eq!(kept, expected);

    // One batch alone: the first of equal documents, and how often each comes.
    let documents = batch(0);
    let unique = Primitives::new(&device).unique(&hashes(&documents))?;
    let most = (0..unique.keys.len()).max_by_key(|&i| unique.counts[i]);
    let most = most.expect("a batch has documents");
    let text = &documents[unique.first[most] as usize];
    let copies = documents.iter().filter(|it| *it == text).count();
    assert_eq!(copies, unique.counts[most] as usize);
    println!(
        "day 0 has {} different documents, one of them {copies} times",
        unique.keys.len()
    );
    // `inverse` is the document that stands for each of them.
    for (text, &row) in documents.iter().zip(&unique.inverse) {
        assert_eq!(*text, documents[unique.first[row as usize] as usize]);
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
