//! The methods that maps have in every place: what is written once does the same on a device and over a group.

use gpumap::sharded::Ranks;
use gpumap::{Buffer, Device, Error, Growth, Key, Map, Outcome, Place, Result, Stream, Value};
use gpumap_tests::device::on_every_target;
use gpumap_tests::group::on_every_group;

fn pairs<P: Place>(place: &P) -> Map<u64, u32, P> {
    // Of several pairs with one key the last one counts.
    let pairs = (0..1_000).map(|i| (i % 500, i as u32));
    let mut map = Map::from_pairs(place, pairs).unwrap();
    map.extend([(7, 1), (500, 2), (7, 3)]);
    assert_eq!(map.len(), 501);
    assert_eq!(
        map.get(&[7, 499, 500, 501]).unwrap(),
        [Some(3), Some(999), Some(2), None]
    );
    map
}

fn body<P: Place>(place: &P) {
    let map = pairs(place);
    let (present, inserted) = (Outcome::Present, Outcome::Inserted);
    let outcomes = map.insert_with_outcome(&[7, 600], &[0, 6]).unwrap();
    assert_eq!(outcomes, [present, inserted]);
    let outcomes = map.upsert_with_outcome(&[601, 7], &[6, 4]).unwrap();
    assert_eq!(outcomes, [inserted, present]);
    let mut held = [0; 2];
    let stored = map.get_or_insert_into(&[602, 7], &[6, 5], &mut held);
    assert_eq!((stored.unwrap(), held), (1, [6, 4]));
    let removed = map.remove_with_outcome(&[7, 700, 602]).unwrap();
    assert_eq!(removed, [true, false, true]);

    let mut set: Map<u128, (), P> = Map::from_keys(place, (0..300).map(|key| key / 3)).unwrap();
    set.extend([99, 100]);
    assert_eq!(set.insert_keys(&[100, 101]).unwrap(), 1);
    let outcomes = set.insert_keys_with_outcome(&[101, 102]).unwrap();
    assert_eq!(outcomes, [present, inserted]);
    let mut keys = [u128::MAX; 104];
    assert_eq!(set.keys_into(&mut keys).unwrap(), 103);
    keys.sort_unstable();
    assert!(keys[..103].iter().copied().eq(0..103) && keys[103] == u128::MAX);
    assert_eq!(set.keys().unwrap().len(), 103);
    assert_eq!(set.drain_keys().unwrap().len(), 103);
    let described = format!("{set:?}");
    assert!(
        described.starts_with("Map { layout: Rows, place: ") && described.contains("len: 0,"),
        "{described}"
    );
    let words: Map<u32, (), P> = Map::from_keys(place, 0..9).unwrap();
    let small = gpumap::primitives::Predicate::Less(4);
    assert_eq!(words.retain_where(small).unwrap(), 5);
    assert_eq!(words.len(), 4);
}

fn says_whether_it_grows<K: Key, V: Value, P: Place>(place: &P) {
    let builder = Map::<K, V, P>::builder(place).capacity(10);
    assert!(!builder.clone().build().unwrap().is_fixed());
    assert!(builder.growth(Growth::Fixed).build().unwrap().is_fixed());
}

#[test]
fn a_map_does_the_same_in_every_place() {
    on_every_target(|on| body::<Device>(on.device()));
    on_every_group(|on| body::<Ranks>(on.ranks()));
    on_every_target(|on| {
        says_whether_it_grows::<u64, u32, _>(on.device());
        says_whether_it_grows::<u32, [u64; 4], _>(on.device());
        says_whether_it_grows::<u128, u64, _>(on.device());
    });
    on_every_group(|on| {
        says_whether_it_grows::<u64, u32, _>(on.ranks());
        says_whether_it_grows::<u128, u64, _>(on.ranks());
    });
}

/// A file keeps it where it keeps settings, and a map that is loaded says so.
#[test]
fn a_loaded_map_says_whether_it_grows() {
    on_every_target(|on| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fixed");
        let fixed = Map::<u64, u32>::builder(on.device()).growth(Growth::Fixed);
        fixed.clone().build().unwrap().save(&path).unwrap();
        assert!(
            Map::<u64, u32>::load(on.device(), &path)
                .unwrap()
                .is_fixed()
        );
        assert!(fixed.load(&path).unwrap().is_fixed());
        let growing = Map::<u64, u32>::builder(on.device()).load(&path);
        assert!(!growing.unwrap().is_fixed());
    });
}

#[test]
fn a_group_refuses_memory_of_a_device() {
    fn expect<T>(result: Result<T>, operation: &str) {
        match result.map(drop) {
            Err(error @ Error::Unsupported { .. }) => {
                let says = format!("ShardedMap has no {operation} with arrays of a device");
                assert!(error.to_string().starts_with(&says), "{error}");
            }
            other => panic!("{operation}: {other:?}"),
        }
    }
    on_every_group(|on| {
        let map = pairs(on.ranks());
        let stream = Stream::new(&on.ranks().devices()[0]).unwrap();
        let keys = Buffer::<u64>::zeroed(&stream, 2).unwrap();
        let mut values = Buffer::<u32>::zeroed(&stream, 2).unwrap();
        expect(map.insert(&keys, &values), "insert");
        expect(map.insert(&[1, 2], &values), "insert");
        expect(map.get(&keys), "get");
        expect(map.get_or_into(&[1, 2], 0, &mut values), "get");
        expect(map.remove(&keys), "remove");
        expect(map.retain_keys(&keys), "retain_keys");
        let into = map.retrieve_all_into(&mut [0; 600], &mut values);
        expect(into, "retrieve_all");
        assert_eq!(map.len(), 501);
    });
}
