use super::*;
use crate::kmer::kmers_of;
use crate::pipeline::{Make, Settings};
use crate::source::Source;
use crate::table::Room;
use gpumap_kmer_kernels::GROUP_WORDS;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::num::NonZero;

/// The CPU, and the first CUDA device if there is one; `GPUMAP_TEST_DEVICE` may be `cpu` or `cuda` for one of them.
fn devices() -> Vec<Device> {
    let wish = gpumap_test_skips::wished_device();
    let mut devices = Vec::new();
    if wish != "cuda" {
        devices.push(Device::cpu());
    }
    match Device::cuda(0) {
        _ if wish == "cpu" => {}
        Ok(device) => {
            register(&device).unwrap();
            devices.push(device);
        }
        Err(gpumap::Error::NoDriver | gpumap::Error::NoDevice { .. }) if wish != "cuda" => {
            gpumap_test_skips::skip("no CUDA device: k-mers were made on the CPU only");
        }
        Err(error) => panic!("the CUDA device cannot be used: {error}"),
    }
    devices
}

/// The k-mers of a text by the kernel.
fn made<C: Code>(device: &Device, text: &[u8], length: KmerLength, strand: Strand) -> Vec<C> {
    let stream = Stream::new(device).unwrap();
    let mut block = Block::new(device, text.len().max(1)).unwrap();
    block.push_letters(text);
    block.seal();
    let words = Buffer::from_slice(&stream, &block.words()[..block.used_words()]).unwrap();
    let mut batch = Batch::<C>::new(&stream, text.len()).unwrap();
    let halves = (words.len() / GROUP_WORDS * 2) as u64;
    let args = KmersArgs {
        words: words.as_ptr(),
        halves,
        k: length.get() as u32,
        canonical: u32::from(strand == Strand::Canonical),
        kmers: batch.kmers.as_mut_ptr().cast(),
        count: batch.count.as_mut_ptr(),
    };
    // SAFETY: on the stream of the buffers, which have room for all.
    unsafe { C::kernel().launch(&stream, Grid::covering(halves, 64), args) }.unwrap();
    let count = batch.count.to_vec().unwrap()[0] as usize;
    let kmers = batch.kmers.slice(..count).unwrap();
    let mut kmers = kmers.to_vec().unwrap();
    kmers.sort_unstable();
    kmers
}

fn expected<C: Code>(text: &[u8], length: KmerLength, strand: Strand) -> Vec<C> {
    let mut kmers: Vec<C> = kmers_of(text, length, strand).collect();
    kmers.sort_unstable();
    kmers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_kernel_makes_the_kmers_of_the_host(
        text in "([ACGT]{0,70}|[ACGTN]{0,50}|[acgt]{60,900}|N{1,70}){0,5}",
        k in 1u8..=64,
        canonical: bool,
    ) {
        let device = Device::cpu();
        let length = KmerLength::new(k).unwrap();
        let strand = if canonical { Strand::Canonical } else { Strand::AsRead };
        let text = text.as_bytes();
        prop_assert_eq!(
            made::<u128>(&device, text, length, strand),
            expected::<u128>(text, length, strand)
        );
        if !length.is_wide() {
            prop_assert_eq!(
                made::<u64>(&device, text, length, strand),
                expected::<u64>(text, length, strand)
            );
        }
    }
}

/// Every k and both strands, on a text whose end is at every place of a word.
#[test]
fn every_k_to_the_last_base() {
    devices().iter().for_each(every_k);
}

fn every_k(device: &Device) {
    let text =
        b"ACGTTGCATGCCGATTACAGGCATCGATCGATTAGCNACGTACGGCTTAGCATCGGATCGTACGTAAGCTAGCTTTTTTTTTTTT\
        TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTAAACCG";
    for k in 1..=64 {
        let length = KmerLength::new(k).unwrap();
        for strand in [Strand::AsRead, Strand::Canonical] {
            for len in [text.len() - usize::from(k), 63, 64, 65, usize::from(k)] {
                let text = &text[..len];
                let wide = made::<u128>(device, text, length, strand);
                assert_eq!(wide, expected::<u128>(text, length, strand), "{k}, {len}");
                if !length.is_wide() {
                    let narrow = made::<u64>(device, text, length, strand);
                    assert_eq!(narrow, expected::<u64>(text, length, strand), "{k}, {len}");
                }
            }
        }
    }
}

/// Counts a text on a device, in small pieces and batches.
fn counted<C: Code>(
    device: &Device,
    text: &[u8],
    k: u8,
    room: Room,
) -> Result<(u64, Vec<(C, u64)>)> {
    let text: &'static [u8] = text.to_vec().leak();
    let settings = Settings {
        device: device.clone(),
        length: KmerLength::new(k).unwrap(),
        most: 1 << 20,
        piece: 200,
        make: Make::Blocks,
        workers: NonZero::new(2).unwrap(),
    };
    let feed = Feed {
        device: device.clone(),
        length: settings.length,
        strand: Strand::Canonical,
        batch: 2 * settings.block(),
    };
    let progress = Progress::hidden();
    let sources = [
        Source::Memory("text", text.into()),
        Source::Memory("text", text.into()),
    ];
    let mut pipeline = Pipeline::start(&sources, &settings, &progress)?;
    let mut table = Table::new(device, room);
    let (kmers, _) = feed.count(&mut pipeline, &mut table, &progress)?;
    let mut pairs = Vec::new();
    table
        .stream(|keys, values| {
            pairs.extend(keys.iter().copied().zip(values.iter().copied()));
            Ok::<(), Error>(())
        })
        .and_then(|outcome| outcome)?;
    pairs.sort_unstable();
    Ok((kmers, pairs))
}

/// Records of many lengths.
fn text() -> Vec<u8> {
    let mut state = 7u64;
    let mut text = Vec::new();
    for record in 0..40 {
        text.extend_from_slice(b">a record\n");
        for _ in 0..record * 3 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push(b"ACGTACGTACGTACGN"[(state >> 60) as usize]);
            if state >> 33 & 31 == 0 {
                text.push(b'\n');
            }
        }
        text.push(b'\n');
    }
    text
}

const GROWING: Room = Room::Growing { kinds: 1 << 14 };

/// On streams that run late too, in several orders.
#[test]
fn what_is_counted_on_a_device_is_what_the_host_counts() {
    counts_what_the_host_counts::<u64>(7);
    counts_what_the_host_counts::<u128>(7);
    counts_what_the_host_counts::<u128>(33);
}

fn counts_what_the_host_counts<C: Code>(k: u8) {
    let text = text();
    let mut right = BTreeMap::<C, u64>::new();
    let mut all = 0;
    for sequence in crate::parse::tests::naive_fasta(&text) {
        let length = KmerLength::new(k).unwrap();
        for kmer in kmers_of(&sequence, length, Strand::Canonical) {
            *right.entry(kmer).or_default() += 2;
            all += 2;
        }
    }
    let right: Vec<(C, u64)> = right.into_iter().collect();
    assert!(!right.is_empty());
    let deferred = (0..4).map(Device::cpu_deferred);
    for device in devices().into_iter().chain(deferred) {
        let (kmers, pairs) = counted(&device, &text, k, GROWING).unwrap();
        assert_eq!(kmers, all);
        assert!(
            pairs == right,
            "{} pairs instead of {}",
            pairs.len(),
            right.len()
        );
    }
}

#[test]
fn what_fails_on_the_device_ends_the_run() {
    let device = Device::cpu();
    assert!(matches!(
        counted::<u64>(&device, &text(), 7, Room::Fixed(10)),
        Err(Error::CapacityTooSmall { capacity: 10 })
    ));
    let small = device.with_memory_budget(20_000);
    assert!(matches!(
        counted::<u64>(&small, &text(), 7, GROWING),
        Err(Error::Map {
            cause: gpumap::Error::OutOfMemory { .. },
            ..
        })
    ));
    // In the third piece.
    let mut text = b"@a\nACGTACGTACGT\n+\n@@@@@@@@@@@@\n".repeat(20);
    text.extend_from_slice(b"no record\n\n\n\n");
    let outcome = counted::<u64>(&device, &text, 7, GROWING);
    assert!(
        matches!(outcome, Err(Error::Sequences { .. })),
        "{outcome:?}"
    );
}

#[test]
fn a_batch_fits_into_memory_and_has_room_for_a_block() {
    let device = Device::cpu().with_memory_budget(1 << 30);
    assert_eq!(Feed::batch::<u64>(&device, 1000, None).unwrap(), 1 << 21);
    assert_eq!(Feed::batch::<u64>(&device, 1000, Some(500)).unwrap(), 4000);
    assert_eq!(Feed::batch::<u64>(&device, 1000, Some(5)).unwrap(), 1000);
    let host = Device::cpu();
    assert!(Feed::batch::<u64>(&host, 1000, None).unwrap() <= MOST_KMERS);
}
