//! Scatter, for stores and removals: keys go to their owners, which work on them there.

use super::exchange::{Given, attempt, exchange, total};
use super::reused::CallBuffers;
use super::route::Routed;
use super::{Rank, Shard};
use crate::error::Result;
use crate::input::Source;
use crate::map::{Core, Key, Value};
use crate::stream::Stream;

impl<K: Key, V: Value> Shard<K, V> {
    /// Sends each key to its owner, with its value if there are any, and does `work` there: on the
    /// own part while the others are on their way, then on what has come. Returns the sum of what
    /// it counts on all ranks. A collective.
    pub(super) fn scatter(
        &mut self,
        rank: &mut Rank,
        keys: Source<'_, K>,
        values: Option<Source<'_, V>>,
        work: impl Fn(&Core, Source<'_, K>, Source<'_, V>) -> Result<usize>,
    ) -> Result<usize> {
        let (len, with_values) = (keys.len(), values.is_some());
        let Self {
            map,
            buffers,
            stream,
            primitives,
            owners,
            ..
        } = self;
        let stream: &Stream = stream;
        let CallBuffers { sent, arrived, .. } = buffers;
        let routed = Routed::new(rank, owners, |digit| {
            let out = sent.of(stream, len, with_values)?;
            let keys = Given(keys);
            match (values.map(Given), out.values) {
                (Some(values), Some(out_values)) => {
                    primitives.partition_into(&keys, &values, digit, out.keys, out_values)
                }
                _ => primitives.partition_keys_into(&keys, digit, out.keys),
            }
        })?;
        let link = rank.link().0.clone();
        let made = attempt(|| {
            let sent = sent.of(stream, len, with_values)?;
            let arrived = arrived.of(stream, routed.incoming, with_values)?;
            link.wait_stream(stream)?;
            Ok((sent, arrived))
        });
        let (sent, mut arrived) = rank.together(made)?;
        let parcels = sent.parcels(&mut arrived);
        // SAFETY: the buffers have what is planned, and are not used until the wait below is
        // over.
        let under_way = unsafe { exchange(rank, &routed.plan, &parcels) }?;
        let own = sent
            .part(routed.own)
            .and_then(|(keys, values)| work(map.core(), keys, values));
        // A rank whose wait fails reports it to the others with the total.
        let all = under_way.wait().and(own).and_then(|own| {
            let (keys, values) = arrived.part(0..routed.incoming)?;
            Ok(own + work(map.core(), keys, values)?)
        });
        total(rank, all)
    }
}
