//! A tensor of candle as keys, without a copy, and the dense ids of its elements as another: the rows of an embedding.

use std::error::Error;

use candle_core::{CpuStorage, Device as CandleDevice, Storage, Tensor};
use gpumap::{Device, RowMap};

fn main() -> Result<(), Box<dyn Error>> {
    let tokens = Tensor::new(&[[9i64, 4, 9], [7, 4, 9]], &CandleDevice::Cpu)?;
    let vocabulary = RowMap::<i64>::new(&Device::best()?)?;

    let rows = {
        let (storage, layout) = tokens.storage_and_layout();
        let Storage::Cpu(CpuStorage::I64(all)) = &*storage else {
            return Err("a tensor of i64 on the CPU".into());
        };
        let (from, to) = layout.contiguous_offsets().ok_or("a contiguous tensor")?;
        vocabulary.insert(&all[from..to])?
    };
    let rows = Tensor::from_vec(rows, tokens.shape(), &CandleDevice::Cpu)?;
    assert_eq!(rows.to_vec2::<u32>()?, [[0, 1, 0], [2, 1, 0]]);

    // A row of the table for each token that there is.
    let table = Tensor::arange(0f32, 2.0 * vocabulary.len() as f32, &CandleDevice::Cpu)?;
    let table = table.reshape((vocabulary.len(), 2))?;
    let embedded = table.index_select(&rows.flatten_all()?, 0)?;
    assert_eq!(embedded.dims(), [6, 2]);
    println!("{} tokens of {} kinds", rows.elem_count(), vocabulary.len());
    Ok(())
}
