//! A process for each rank: found through a file, linked by NCCL.

use std::process::{Command, Stdio};

use gpumap::primitives::Primitives;
use gpumap::primitives::distributed::{Form, histogram_even};
use gpumap::sharded::{GroupError, Membership, Rank, Shard};
use gpumap::{Device, Error, Merge, Result};
use gpumap_tests::device::targets;
use gpumap_tests::group::groups;

/// What every rank does, whatever process it is in.
fn work(rank: &mut Rank) -> Result<()> {
    let (me, ranks) = (rank.index() as u64, rank.ranks() as u64);
    let n = 10_000;
    let mut shard = Shard::<u64, u64>::with_capacity(rank, (n * ranks) as usize)?;
    let keys: Vec<u64> = (me * n..(me + 1) * n).collect();
    let values: Vec<u64> = keys.iter().map(|key| key * 3).collect();
    assert_eq!(shard.insert(rank, &keys, &values)?, (n * ranks) as usize);
    assert_eq!(shard.len(rank)?, (n * ranks) as usize);
    // Those of the next rank.
    let asked: Vec<u64> = keys.iter().map(|key| (key + n) % (n * ranks)).collect();
    let right: Vec<Option<u64>> = asked.iter().map(|key| Some(key * 3)).collect();
    assert_eq!(shard.get(rank, &asked)?, right);
    assert_eq!(shard.merge(rank, &[7], &[1], Merge::Add)?, 0);
    assert_eq!(shard.get(rank, &[7])?, [Some(21 + ranks)]);
    rank.barrier()?;

    let primitives = Primitives::new(rank.device());
    let all = 0..n * ranks;
    let counted = histogram_even(&primitives, rank, &keys, all, 10, Form::Replicated)?;
    assert_eq!(counted.counts, vec![n * ranks / 10; 10]);
    Ok(())
}

#[test]
fn a_group_of_one_needs_nobody() {
    let folder = std::env::temp_dir().join(format!("gpumap-{}", std::process::id()));
    let id = "00".repeat(128).parse().unwrap();
    for on in targets() {
        let mut rank = Rank::join(on.device(), &Membership::new(id, 0, 1).unwrap()).unwrap();
        work(&mut rank).unwrap();
    }
    // Where there is no rank to find, looking ends.
    let missing = folder.join("no/such/folder/id");
    let error = Membership::from_file(missing, 0, 2).unwrap_err();
    let known = [GroupError::NoNccl, GroupError::Multicast].map(|known| known.to_string());
    let well = match &error {
        Error::Group(GroupError::IdFile { .. }) => true,
        other => known.contains(&other.to_string()),
    };
    assert!(well, "{error}");
    // The CPU is linked to no other process.
    let two = Membership::new(id, 0, 2).unwrap();
    let error = Rank::join(&Device::cpu(), &two).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
}

#[test]
#[ignore = "run by the next one in processes of their own"]
fn child() {
    let membership = Membership::from_env().unwrap();
    let device = Device::cuda(membership.rank()).unwrap();
    let mut rank = Rank::join(&device, &membership).unwrap();
    work(&mut rank).unwrap();
    // Memory of another process is not mapped, and that is said.
    let primitives = Primitives::new(&device);
    let error = histogram_even(&primitives, &mut rank, &[1u32], 0..2, 2, Form::Distributed);
    let error = error.unwrap_err();
    assert!(
        matches!(error, Error::Group(GroupError::OtherProcess)),
        "{error}"
    );
    rank.barrier().unwrap();
}

#[test]
fn a_process_for_each_gpu() {
    let several = |on: &&gpumap_tests::Group| {
        let devices = on.ranks().devices();
        devices[0].is_cuda() && devices.len() > 1 && devices[0] != devices[1]
    };
    let Some(group) = groups().iter().find(several) else {
        gpumap_test_skips::skip("a process for each GPU: there is no group of several");
        return;
    };
    let file = std::env::temp_dir().join(format!("gpumap-id-{}", std::process::id()));
    let ranks = group.len();
    let start = |rank: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "sharded::processes::child",
                "--ignored",
                "--nocapture",
            ])
            .env("GPUMAP_RANK", rank.to_string())
            .env("GPUMAP_RANKS", ranks.to_string())
            .env("GPUMAP_ID_FILE", &file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
    }
    std::fs::remove_file(&file).unwrap();
}
