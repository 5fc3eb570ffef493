//! [`Mapping`]: a range of a file in memory, which several threads fill.
//!
//! Linux lets one thread at a time write to a file, and copies 2 to 3 GB/s with it. Where a disk is behind the file
//! that is enough. In a file system in memory (tmpfs, as `/dev/shm`) threads that fill a mapping do not wait for each
//! other, although it costs each of them more.
//!
//! By hand and not by memmap2: there the advice that gives a range its memory needs the whole mapping, and here each thread
//! has a part of its own, so that the pages are cleared by all of them.

#[cfg(target_os = "linux")]
pub(super) use linux::Mapping;
#[cfg(not(target_os = "linux"))]
pub(super) use other::Mapping;

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::c_void;
    use std::fs::File;
    use std::io;
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;
    use std::slice::from_raw_parts_mut;

    use rustix::fs::fstatfs;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    /// What `statfs` calls tmpfs.
    const TMPFS: i64 = 0x0102_1994;

    /// A multiple of the page size of every system.
    const ALIGN: u64 = 1 << 16;

    /// Bytes of a file that were added to its end, mapped.
    ///
    /// Invariant: `start` is a mapping of `len` bytes of the file, and belongs to this alone. The bytes of
    /// the file begin `skip` bytes after it.
    pub struct Mapping {
        start: *mut c_void,
        len: usize,
        skip: usize,
    }

    impl Mapping {
        /// Makes the file longer by `len` bytes from `at` on, which is its end, and maps these. None where the file
        /// is not in memory, or the system maps nothing: then writes do.
        pub fn of_end(file: &File, at: u64, len: usize) -> Option<Self> {
            #[allow(
                clippy::useless_conversion,
                clippy::unnecessary_cast,
                reason = "the types differ from system to system"
            )]
            if fstatfs(file).ok()?.f_type as i64 != TMPFS {
                return None;
            }
            let skip = usize::try_from(at % ALIGN).ok()?;
            let mapped = len.checked_add(skip)?;
            file.set_len(at.checked_add(len as u64)?).ok()?;
            let (read, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            // SAFETY: the system chooses a place where nothing else is.
            let start = unsafe { mmap(null_mut(), mapped, read, flags, file, at - skip as u64) };
            Some(Self {
                start: start.ok()?,
                len: mapped,
                skip,
            })
        }

        /// Cuts the range into regions of these lengths, one after the other, as far as it goes.
        pub fn regions(&mut self, lens: impl Iterator<Item = usize>) -> Vec<Region<'_>> {
            // SAFETY: the mapping is valid for as long as `self` is borrowed, and used through these regions
            // alone. Any bytes are valid as uninitialised ones; they are touched when they are known to be there.
            let mut rest: &mut [MaybeUninit<u8>] =
                unsafe { from_raw_parts_mut(self.start.cast(), self.len) };
            let mut begins = self.skip;
            rest = &mut rest[begins..];
            let cut = lens.map_while(|len| {
                let (bytes, behind) = std::mem::take(&mut rest).split_at_mut_checked(len)?;
                rest = behind;
                let before = begins % ALIGN as usize;
                begins += len;
                Some(Region { bytes, before })
            });
            cut.collect()
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: by the invariant; the regions borrowed it, so there are none.
            if let Err(error) = unsafe { munmap(self.start, self.len) } {
                tracing::debug!(%error, bytes = self.len, "a mapping stays");
            }
        }
    }

    /// A part of a mapping, which one thread fills.
    pub struct Region<'m> {
        bytes: &'m mut [MaybeUninit<u8>],
        /// Bytes of the mapping before it from a page's start on.
        before: usize,
    }

    impl Region<'_> {
        /// Fills it with as many bytes.
        ///
        /// # Errors
        /// If the file system has no memory left for it; nothing was touched then.
        pub fn fill(self, bytes: &[u8]) -> io::Result<()> {
            let first = self.bytes.as_mut_ptr().cast::<u8>();
            let (first, len) = (
                first.wrapping_sub(self.before),
                self.bytes.len() + self.before,
            );
            if bytes.len() != self.bytes.len() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            // Without this, a touch would end the process where there is no memory.
            // SAFETY: the range lies in the mapping, from a page's start on, and its bytes stay as they are.
            unsafe { madvise(first.cast(), len, Advice::LinuxPopulateWrite) }?;
            self.bytes.write_copy_of_slice(bytes);
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use std::fs;

        use super::*;

        /// A file in memory, if the machine has such a file system.
        fn in_memory() -> Option<tempfile::NamedTempFile> {
            let file = tempfile::NamedTempFile::new_in("/dev/shm").ok()?;
            (fstatfs(file.as_file()).ok()?.f_type as i64 == TMPFS).then_some(file)
        }

        #[test]
        fn threads_fill_regions_behind_what_is_there() {
            let Some(file) = in_memory() else {
                return;
            };
            let parts: Vec<Vec<u8>> = (0..40_usize)
                .map(|part| vec![part as u8; part * part * 97 % 70_000])
                .collect();
            for head in [0, 1, 4_096, 65_535, 65_536, 200_001] {
                let head = vec![0xee; head];
                fs::write(file.path(), &head).unwrap();
                let len = parts.iter().map(Vec::len).sum();
                let mut mapping = Mapping::of_end(file.as_file(), head.len() as u64, len).unwrap();
                let regions = mapping.regions(parts.iter().map(Vec::len));
                assert_eq!(regions.len(), parts.len());
                std::thread::scope(|scope| {
                    for (region, part) in regions.into_iter().zip(&parts) {
                        scope.spawn(move || region.fill(part).unwrap());
                    }
                });
                drop(mapping);
                let expected = [head, parts.concat()].concat();
                assert!(fs::read(file.path()).unwrap() == expected);
            }
        }

        #[test]
        fn memory_that_is_not_there_is_an_error() {
            let Some(file) = in_memory() else {
                return;
            };
            let mut mapping = Mapping::of_end(file.as_file(), 10, 200_000).unwrap();
            // As if there were no memory left for it.
            file.as_file().set_len(0).unwrap();
            for region in mapping.regions([100, 199_900].into_iter()) {
                let bytes = vec![1; region.bytes.len()];
                region.fill(&bytes).unwrap_err();
            }
            assert_eq!(mapping.regions([200_000, 1].into_iter()).len(), 1);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::fs::File;
    use std::io;

    /// There is none on this system.
    pub enum Mapping {}

    impl Mapping {
        pub fn of_end(_file: &File, _at: u64, _len: usize) -> Option<Self> {
            None
        }

        pub fn regions(&mut self, _lens: impl Iterator<Item = usize>) -> Vec<Region> {
            match *self {}
        }
    }

    pub enum Region {}

    impl Region {
        pub fn fill(self, _bytes: &[u8]) -> io::Result<()> {
            match self {}
        }
    }
}
