//! Launches of graphs.

use super::*;

#[test]
fn a_launch_comes_behind_the_streams_of_its_buffers_and_they_behind_it() {
    in_many_orders(|device| {
        let [stream, one, other] = streams(device);
        let map = map(device, 4 * N);
        let mut graph = map.graph(&stream);
        for first in [100, 200] {
            map.clear().unwrap();
            let mut keys_in = Arriving::new(&one, &keys(first));
            let mut values_in = Arriving::new(&other, &values(first));
            let mut found = output::<u64>(&one, N);
            let mut verbs = graph.record();
            verbs.insert(&keys_in.buffer, &values_in.buffer).unwrap();
            verbs.get_or_into(&keys_in.buffer, 0, &mut found).unwrap();
            let answer = verbs.launch().unwrap();
            keys_in.buffer.fill_bytes(JUNK).unwrap();
            values_in.buffer.fill_bytes(JUNK).unwrap();
            assert_eq!(found.to_vec().unwrap(), values(first));
            assert_eq!(answer.wait().unwrap(), [N, 0]);
            holds(&map, first);
        }
    });
}

#[test]
fn a_launch_that_makes_the_map_grow_comes_behind_its_stream() {
    in_many_orders(|device| {
        let [stream, other] = streams(device);
        let map = map(device, 1);
        let mut keys_in = Buffer::<u64>::zeroed(&other, 40 * N).unwrap();
        other.synchronize().unwrap();
        let many: Vec<u64> = (5..5 + 40 * N as u64).collect();
        // SAFETY: as many bytes, which live until the call has waited.
        unsafe {
            let (to, from) = (keys_in.as_mut_ptr().cast(), many.as_ptr().cast());
            stream.upload(to, from, size_of_val(&many[..])).unwrap();
        }
        let mut graph = map.graph(&stream);
        let mut verbs = graph.record();
        verbs.insert(&keys_in, &keys_in).unwrap();
        assert_eq!(verbs.launch().unwrap().wait().unwrap(), [40 * N]);
        stream.synchronize().unwrap();
    });
}

/// More launches than may be in flight at once, each with an answer of its own.
fn many_launches(device: &Device, captures_differ: bool) {
    let [stream] = streams(device);
    let map = map(device, 8 * N);
    let mut batch = Buffer::<u64>::zeroed(&stream, N).unwrap();
    let mut graph = map.graph(&stream);
    let mut answers = Vec::new();
    let mut sources = Vec::new();
    for launch in 0..20 {
        let distinct = launch % 5 + 1;
        let source: Vec<u64> = (0..N as u64).map(|i| i % distinct as u64).collect();
        // SAFETY: as many bytes, which live until the stream has been waited for.
        unsafe {
            let (to, from) = (batch.as_mut_ptr().cast(), source.as_ptr().cast());
            stream.upload(to, from, size_of_val(&source[..])).unwrap();
        }
        sources.push(source);
        let len = if captures_differ { N - launch } else { N };
        let batch = batch.slice(..len).unwrap();
        let mut verbs = graph.record();
        verbs.insert(batch, batch).unwrap();
        verbs.remove(batch).unwrap();
        answers.push((verbs.launch().unwrap(), distinct.min(len)));
    }
    let answers: Vec<_> = answers
        .into_iter()
        .map(|(answer, distinct)| (answer.wait().unwrap(), distinct))
        .collect();
    stream.synchronize().unwrap();
    for (counts, distinct) in answers {
        assert_eq!(counts, [distinct; 2]);
    }
    assert!(map.is_empty());
}

#[test]
fn a_capture_is_launched_again_when_it_has_ended() {
    in_many_orders(|device| many_launches(device, false));
}

#[test]
fn a_ticket_is_used_again_when_its_capture_has_ended() {
    in_many_orders(|device| many_launches(device, true));
}
