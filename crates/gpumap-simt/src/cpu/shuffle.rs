//! Which lane a shuffle reads. The rules are those of PTX's `shfl.sync`, which CUDA's
//! `__shfl_*_sync` compile to: offsets count modulo 32; a lane that would read past the end of its
//! segment in the direction of the shuffle gets its own value; an exclusive or may reach into an
//! earlier segment.

use super::collective::meet;
use super::fault::{FaultKind, Operation, Site};
use super::lane::{Lane, Next};

/// Where a shuffle reads relative to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Idx,
    Up,
    Down,
    Xor,
}

/// The lane that `lane` reads. `width` is a power of two, at most 32.
#[inline]
pub(super) fn source(mode: Mode, lane: u32, by: u32, width: u32) -> u32 {
    let by = by & 31;
    let first = lane & !(width - 1);
    let last = first | (width - 1);
    match mode {
        Mode::Idx => first | by & (width - 1),
        Mode::Up if lane >= first + by => lane - by,
        Mode::Down if lane + by <= last => lane + by,
        Mode::Xor if lane ^ by <= last => lane ^ by,
        _ => lane,
    }
}

/// Takes part in a shuffle.
#[inline(always)]
pub(super) fn shuffle(
    lane: &Lane,
    (operation, mode): (Operation, Mode),
    mask: u32,
    value: u64,
    by: u32,
    width: u32,
    site: Site,
) -> u64 {
    if !width.is_power_of_two() || width > 32 {
        lane.go(bad_width(lane, operation, width, site));
        return value;
    }
    meet(
        lane,
        operation,
        mask,
        value,
        source(mode, lane.index(), by, width),
        site,
    )
}

#[cold]
fn bad_width(lane: &Lane, operation: Operation, width: u32, site: Site) -> Next {
    if lane.unwinding() {
        return Next::GoOn;
    }
    lane.block().raise(FaultKind::ShuffleWidth {
        lane: lane.reference(),
        operation,
        width,
        site,
    });
    Next::Suspend
}

#[cfg(test)]
mod tests {
    use super::{Mode, source};

    /// The pseudocode of the PTX manual, with the clamp that CUDA passes.
    fn ptx(mode: Mode, lane: u32, b: u32, width: u32) -> u32 {
        let c = (32 - width) << 8 | if mode == Mode::Up { 0 } else { 0x1f };
        let (bval, cval, segmask) = (b & 31, c & 31, c >> 8 & 31);
        let max = lane & segmask | cval & !segmask;
        let min = lane & segmask;
        let (j, valid) = match mode {
            Mode::Up => (
                lane.wrapping_sub(bval),
                lane as i32 - bval as i32 >= max as i32,
            ),
            Mode::Down => (lane + bval, lane + bval <= max),
            Mode::Xor => (lane ^ bval, lane ^ bval <= max),
            Mode::Idx => (min | bval & !segmask, min | bval & !segmask <= max),
        };
        if valid { j } else { lane }
    }

    #[test]
    fn follows_the_manual() {
        for mode in [Mode::Idx, Mode::Up, Mode::Down, Mode::Xor] {
            for width in [1, 2, 4, 8, 16, 32] {
                for lane in 0..32 {
                    for by in 0..70 {
                        assert_eq!(
                            source(mode, lane, by, width),
                            ptx(mode, lane, by, width),
                            "{mode:?} lane {lane} by {by} width {width}"
                        );
                    }
                }
            }
        }
    }
}
