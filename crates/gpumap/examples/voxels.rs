//! A sparse grid of voxels: points get the row of their voxel, and each voxel finds its 27 neighbours.
//!
//! Keys are three coordinates, 12 bytes. What a voxel has lies in arrays of this program, at the row of the voxel.
//!
//! `cargo run -p gpumap --example voxels`

use std::collections::HashMap;

use gpumap::rows::NO_ROW;
use gpumap::{Device, Result, RowMap};

/// Coordinates of a voxel.
type Voxel = [i32; 3];

/// The edge of a voxel.
const EDGE: f32 = 0.1;

/// Voxels around one, itself included.
const NEIGHBOURS: usize = 27;

/// Points on a sphere, of which most voxels are empty.
fn points(n: u32) -> Vec<[f32; 3]> {
    // A spiral from pole to pole, whose turns are as far apart as its points.
    let turn = std::f32::consts::PI * (3.0 - 5f32.sqrt());
    let point = |i: u32| {
        let z = 1.0 - 2.0 * (i as f32 + 0.5) / n as f32;
        let (radius, angle) = ((1.0 - z * z).sqrt(), i as f32 * turn);
        [radius * angle.cos(), radius * angle.sin(), z]
    };
    (0..n).map(point).collect()
}

fn voxel_of(point: &[f32; 3]) -> Voxel {
    point.map(|x| (x / EDGE).floor() as i32)
}

/// The voxels around one, in a fixed order, itself in the middle.
fn neighbours([x, y, z]: Voxel) -> impl Iterator<Item = Voxel> {
    let offset = |i: usize, step: usize| (i / step % 3) as i32 - 1;
    (0..NEIGHBOURS).map(move |i| [x + offset(i, 9), y + offset(i, 3), z + offset(i, 1)])
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("on {device}");

    // Points to voxels: how many points each has, by row.
    let points = points(20_000);
    let keys: Vec<Voxel> = points.iter().map(voxel_of).collect();
    let grid = RowMap::<Voxel>::new(&device)?;
    let rows = grid.insert(&keys)?;
    let voxels = grid.keys()?;
    let mut weights = vec![0u32; grid.len()];
    for (&row, key) in rows.iter().zip(&keys) {
        assert_eq!(voxels[row as usize], *key);
        weights[row as usize] += 1;
    }
    println!("{} points in {} voxels", points.len(), voxels.len());

    // All neighbours of all voxels in one batch: a table of rows, 27 for each voxel, as sparse convolutions take it.
    let asked: Vec<Voxel> = voxels.iter().copied().flat_map(neighbours).collect();
    let mut table = vec![NO_ROW; asked.len()];
    grid.get_into(&asked, &mut table)?;
    let taken = table.iter().filter(|&&row| row != NO_ROW).count();
    println!(
        "{:.1} of {NEIGHBOURS} neighbours are there on average",
        taken as f64 / voxels.len() as f64
    );

    // With it the points around each voxel, as a `HashMap` finds them.
    let mut expected = HashMap::<Voxel, u32>::new();
    for &key in &keys {
        *expected.entry(key).or_default() += 1;
    }
    assert_eq!(voxels.len(), expected.len());
    for (row, (&voxel, around)) in voxels.iter().zip(table.chunks(NEIGHBOURS)).enumerate() {
        assert_eq!(around[NEIGHBOURS / 2], row as u32);
        let there = around.iter().filter(|&&row| row != NO_ROW);
        let sum: u32 = there.map(|&row| weights[row as usize]).sum();
        let by_map = neighbours(voxel).filter_map(|it| expected.get(&it));
        assert_eq!(sum, by_map.sum());
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
