//! Verbs in a graph: the same few verbs over and over, each round by one call of the driver.
//!
//! A window slides over a stream of numbers: each round removes the oldest, stores the newest, and
//! looks up which of some keys are in the window.
//!
//! `cargo run -p gpumap --example graph`

use gpumap::{Buffer, Device, Map, Result, Stream};

const LEN: u64 = 100;
const WINDOW: u64 = 5 * LEN;
const ROUNDS: u64 = 40;

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");
    let stream = Stream::new(&device)?;
    // Room for the window and what is stored before it is known to fit: it never grows.
    let window = Map::<u64, u64>::with_capacity(&device, 4 * WINDOW as usize)?;

    let mut newest = Buffer::zeroed(&stream, LEN as usize)?;
    let mut oldest = Buffer::zeroed(&stream, LEN as usize)?;
    let mut asked = Buffer::zeroed(&stream, 3)?;
    let mut found = Buffer::zeroed(&stream, 3)?;
    let mut graph = window.graph(&stream);
    for round in 0..ROUNDS {
        let first = WINDOW + round * LEN;
        // The buffers stay, what is in them changes.
        newest.copy_from_slice(&(first..first + LEN).collect::<Vec<_>>())?;
        oldest.copy_from_slice(&(first - WINDOW..first - WINDOW + LEN).collect::<Vec<_>>())?;
        asked.copy_from_slice(&[first, first - LEN, first - WINDOW])?;

        let mut verbs = graph.record();
        verbs.remove(&oldest)?;
        verbs.insert(&newest, &newest)?;
        verbs.contains_into(&asked, &mut found)?;
        let counts = verbs.launch()?.wait()?; // one for each verb

        let begun = round >= WINDOW / LEN; // whether the window has been filled
        assert_eq!(
            counts,
            [if begun { LEN as usize } else { 0 }, LEN as usize, 0]
        );
        assert_eq!(found.to_vec()?, [1, u8::from(round > 0), 0]);
    }
    assert_eq!(window.len(), WINDOW as usize);
    println!(
        "{ROUNDS} rounds of 3 verbs, captured {} times",
        graph.captures()
    );
    assert!(graph.captures() <= 2);
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
