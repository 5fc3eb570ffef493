//! What a first program does: `cargo xtask package` runs it, and bounds its size.

use gpumap::{Device, Map, Result};

fn main() -> Result<()> {
    let map = Map::<u64, u64>::new(&Device::best()?)?;
    map.insert(&[1, 2, 3], &[10, 20, 30])?;
    println!("{:?}", map.get(&[2, 4])?);
    Ok(())
}
