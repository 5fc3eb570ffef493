//! Compaction of chains.

use gpumap_kernels::chained::mixed::Operation;
use gpumap_kernels::slot::Format;

use crate::support::{
    By, HostMap, Launch, Random, all, compact_all, cut, on_every_format, serve, value_for,
};

#[test]
fn pairs_keep_their_order_and_empty_slabs_go_back() {
    fn scenario<F: Format>(seed: u64) {
        let mut random = Random(seed);
        let buckets = 1 + seed as u32 % 3;
        let mut map = HostMap::<F>::new(buckets, &[20, 60], 0, seed);
        let n = [0, 1, 14, 15, 16, 30, 31, 200, 250][seed as usize % 9];
        let pairs: Vec<_> = (0..n).map(|k| (k, cut::<F>(value_for(k, seed)))).collect();
        let launch = Launch::plain(pairs.len().max(1));
        serve(&mut map, By::Mixed, launch, &all(Operation::Append, &pairs));
        // From none to all of them go.
        let share = seed % 5;
        let gone: Vec<_> = pairs
            .iter()
            .copied()
            .filter(|_| random.below(4) < share)
            .collect();
        serve(&mut map, By::Mixed, launch, &all(Operation::Remove, &gone));
        let before = map.check();
        let freed = compact_all(&mut map, (seed % 2 == 1).then_some(seed));
        let after = map.check();
        assert_eq!(after.pairs, before.pairs, "pairs or their order");
        assert_eq!(before.slabs() - after.slabs(), freed);
        for (slabs, live) in after.chains.iter().zip(&after.live) {
            let needed = live.div_ceil(HostMap::<F>::slots(0)).max(1);
            assert_eq!(slabs + 1, needed, "slabs for {live} pairs");
        }
        // A second time there is nothing to do.
        assert_eq!(compact_all(&mut map, None), 0);
        assert_eq!(map.check().pairs, after.pairs);
        // And the map goes on.
        let answers = serve(&mut map, By::Mixed, launch, &all(Operation::Insert, &pairs));
        assert_eq!(answers.stored, gone.len());
        assert_eq!(map.check().pairs.len(), pairs.len());
    }
    on_every_format!(scenario, 45);
}
