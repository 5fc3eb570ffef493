//! Verbs on streams: batches are queued one after the other, and their results are read later.
//!
//! `cargo run -p gpumap --example streams`

use gpumap::{Buffer, Device, Map, Merge, Pending, Result, Stream};

const BATCHES: u64 = 8;
const LEN: usize = 5_000;

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");
    let counts = Map::<u64, u64>::with_capacity(&device, 2 * LEN * BATCHES as usize)?;

    // What is queued on two streams may overlap; on one of them it keeps its order.
    let streams = [Stream::new(&device)?, Stream::new(&device)?];
    let ones: Vec<Buffer<u64>> = streams
        .iter()
        .map(|stream| Buffer::from_slice(stream, &[1; LEN]))
        .collect::<Result<_>>()?;
    let mut new: Vec<Pending<usize>> = Vec::new();
    for batch in 0..BATCHES {
        let i = batch as usize % streams.len();
        // Half of the keys of each batch are those of the batch before.
        let first = batch * LEN as u64 / 2;
        let keys: Vec<u64> = (first..first + LEN as u64).collect();
        let keys = Buffer::from_slice(&streams[i], &keys)?;
        new.push(counts.on(&streams[i]).merge(&keys, &ones[i], Merge::Add)?);
        // `keys` is dropped here: it is freed after the merge, in the order of its stream.
    }
    let new: Result<Vec<usize>> = new.into_iter().map(Pending::wait).collect();
    let new: usize = new?.into_iter().sum();
    assert_eq!(new, (BATCHES as usize + 1) * LEN / 2);
    assert_eq!(counts.len(), new);

    // Answers to two questions, side by side in one buffer.
    let [stream, _] = &streams;
    let mut answers = Buffer::<u64>::zeroed(stream, 4)?;
    for (question, keys) in [[0, 2_500], [2_501, u64::MAX]].iter().enumerate() {
        let part = answers.slice_mut(2 * question..2 * question + 2)?;
        drop(counts.on(stream).get_or_into(keys, 0, part)?); // not waited for
    }
    // Reading the buffer comes after them: it is of the same stream.
    assert_eq!(answers.to_vec()?, [1, 2, 2, 0]);
    println!("{new} keys from {BATCHES} batches");
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
