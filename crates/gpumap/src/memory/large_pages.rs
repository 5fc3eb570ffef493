//! Large pages under large arrays of the host.
//!
//! A new array costs a fault for each page, when that is first written to. To fill 1.6 GB takes fifteen threads 90 ms
//! with pages of 4 KiB, and to free them 50; with large pages, each of them first touched by one thread, 41 and 5.

/// Bytes of a large page, where there are any: a multiple of all other sizes.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Requests large pages from the system under the whole ones of an unwritten array. Whether it has any changes only
/// the time.
#[cfg(target_os = "linux")]
pub(super) fn ask_for(array: *mut u8, bytes: usize) {
    use rustix::mm::{Advice, madvise};

    let skipped = array.align_offset(LARGE_PAGE);
    let whole = bytes.saturating_sub(skipped) / LARGE_PAGE * LARGE_PAGE;
    if whole == 0 {
        return;
    }
    let first = array.wrapping_add(skipped).cast();
    // SAFETY: these pages are of one allocation, and such advice changes nothing that is in them.
    if let Err(error) = unsafe { madvise(first, whole, Advice::LinuxHugepage) } {
        tracing::debug!(%error, bytes = whole, "no large pages");
    }
}

/// Other systems decide by themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn ask_for(_array: *mut u8, _bytes: usize) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;
    use crate::memory::{host_block, host_vec, host_zeroed};

    /// What the system says of the pages of an address.
    fn flags_of(address: usize) -> Option<String> {
        let maps = fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_it = false;
        for line in maps.lines() {
            let range = line.split_whitespace().next().unwrap_or_default();
            let ends = range.split_once('-').and_then(|(first, end)| {
                let parse = |text| usize::from_str_radix(text, 16).ok();
                Some(parse(first)?..parse(end)?)
            });
            if let Some(range) = ends {
                is_it = range.contains(&address);
            } else if is_it && let Some(flags) = line.strip_prefix("VmFlags:") {
                return Some(flags.to_owned());
            }
        }
        None
    }

    #[test]
    fn large_vectors_ask_and_others_do_not() {
        let mut large = host_vec::<u64>(8 * LARGE_PAGE).unwrap();
        large.extend([7; 1000]);
        expect_requested(large.as_ptr().cast());
        assert_eq!(large, [7; 1000]);
        let small = host_vec::<u8>(LARGE_PAGE - 1).unwrap();
        ask_for(small.as_ptr().cast_mut(), 0);
        assert!(small.is_empty());
    }

    #[test]
    fn memory_of_devices_and_zeroed_vectors_ask() {
        expect_requested(host_block(8 * LARGE_PAGE).unwrap().ptr);
        expect_requested(host_zeroed::<u8>(8 * LARGE_PAGE).unwrap().as_ptr());
    }

    /// The first whole large page of some memory is requested as one.
    fn expect_requested(memory: *const u8) {
        let page = memory.wrapping_add(memory.align_offset(LARGE_PAGE)).addr();
        let mode = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        match (mode, flags_of(page)) {
            (Ok(_), Some(flags)) => assert!(flags.contains(" hg"), "{flags}"),
            other => eprintln!("not seen, the system does not say: {other:?}"),
        }
    }
}
