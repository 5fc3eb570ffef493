//! Scatter, for stores and removals: keys go to their owners, which work on them there.

use std::ops::Range;

use super::Rank;
use super::exchange::{Given, attempt, exchange, total};
use super::reused::{CallBuffers, PairBuffers};
use super::route::Routed;
use super::words::Words;
use crate::error::Result;
use crate::input::Source;
use crate::map::{Core, Key, Value};
use crate::stream::Stream;

/// When a rank works on its own part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnPart {
    /// While the others are on their way.
    First,
    /// Together with what has come.
    WithAll,
}

impl<K: Key, V: Value> Words<K, V> {
    /// Sends each key to its owner, with its value if there are any, and does `work` there: on the own part at its time, and on what has
    /// come. Returns the sum of what it counts on all ranks. A collective.
    pub(super) fn scatter(
        &mut self,
        rank: &mut Rank,
        keys: Source<'_, K>,
        values: Option<Source<'_, V>>,
        own_part: OwnPart,
        work: impl Fn(&Core, Source<'_, K>, Source<'_, V>) -> Result<usize>,
    ) -> Result<usize> {
        let (len, with_values) = (keys.len(), values.is_some());
        let Self {
            map,
            buffers,
            stream,
            primitives,
            spread,
            ..
        } = self;
        let stream: &Stream = stream;
        let CallBuffers { sent, arrived, .. } = buffers;
        let routed = Routed::new(rank, &spread.owners, |digit| {
            let out = sent.of(stream, len, with_values)?;
            let keys = Given(keys);
            match (values.map(Given), out.values) {
                (Some(values), Some(out_values)) => {
                    primitives.partition_into(&keys, &values, digit, out.keys, out_values)
                }
                _ => primitives.partition_keys_into(&keys, digit, out.keys),
            }
        })?;
        let own = routed.own;
        let all = match own_part {
            OwnPart::First => routed.incoming,
            OwnPart::WithAll => routed.incoming + own.len(),
        };
        let link = rank.link().0.clone();
        let made = attempt(|| {
            let sent = sent.of(stream, len, with_values)?;
            let arrived = arrived.of(stream, all, with_values)?;
            link.wait_stream(stream)?;
            Ok((sent, arrived))
        });
        let (sent, mut arrived) = rank.together(made)?;
        let parcels = sent.parcels(&mut arrived);
        // SAFETY: the buffers have what is planned, and are not used until the wait below is
        // over.
        let under_way = unsafe { exchange(rank, &routed.plan, &parcels) }?;
        let work_on = |pairs: &PairBuffers<'_, K, V>, range: Range<usize>| {
            let (keys, values) = pairs.part(range)?;
            work(map.inline(), keys, values)
        };
        let own = match own_part {
            OwnPart::First => work_on(&sent, own),
            OwnPart::WithAll => arrived.copy_from(routed.incoming, &sent, own).map(|()| 0),
        };
        // A rank whose wait fails reports it to the others with the total.
        let counted = under_way.wait().and(own);
        let counted = counted.and_then(|own| Ok(own + work_on(&arrived, 0..all)?));
        total(rank, counted)
    }
}
