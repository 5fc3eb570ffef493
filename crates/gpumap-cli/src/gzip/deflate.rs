//! Deflate (RFC 1951) block by block, from any bit on, also where the bytes before are not known.
//!
//! A stream is a sequence of blocks, each with codes of its own, so that a thread can begin at any of them. Only what
//! stands before is missing, of which a block may repeat up to [`WINDOW`] bytes. Where it is missing, the output is of
//! `u16`: a byte, or a [marker](MARKER) that names a place in the unknown window. Once the window is known,
//! [`resolve`] makes bytes of them.
//!
//! flate2 does everything else: it cannot stop at a block or begin at one. What this module calls wrong is left to flate2,
//! so an error has one place that finds it.

use std::ops::Range;

use super::huffman::{self, Codes, END, INVALID, LITERAL, SUBTABLE};

/// Bytes that a match reaches back at most.
pub const WINDOW: usize = 1 << 15;

/// Added to a place in the window before the output.
pub const MARKER: u16 = 1 << 15;

/// Symbols that a match writes at most, with what is written beyond its end and overwritten later.
const MOST_MATCH: usize = 258 + WIDE;

/// Symbols that are copied at once.
const WIDE: usize = 16;

/// Symbols by which an output grows.
const GROWTH: usize = 1 << 18;

/// An element of an output.
pub trait Symbol: Copy + Default + From<u8> {}

impl Symbol for u8 {}
impl Symbol for u16 {}

/// Why no more can be inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is not Deflate, or a match reaches back too far.
    Invalid,
    /// A block goes on behind the input.
    Short,
    /// The output would have more symbols than allowed.
    Full,
}

/// Bits of a slice, the lowest of a byte first.
#[derive(Clone, Copy, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// The byte after those in `buffer`; beyond the end, if zeros were taken for what is not there.
    at: usize,
    buffer: u64,
    /// Bits of the buffer that count. Those above are zeros, or the right bits of the next byte.
    count: u32,
}

impl<'a> Bits<'a> {
    /// The bits from one on.
    pub fn new(bytes: &'a [u8], bit: usize) -> Self {
        let mut bits = Self {
            bytes,
            at: bit / 8,
            buffer: 0,
            count: 0,
        };
        bits.refill();
        bits.skip(bit as u32 % 8);
        bits
    }

    /// The bit that comes next.
    pub fn position(&self) -> usize {
        self.at * 8 - self.count as usize
    }

    /// Whether more bits were taken than there are.
    fn is_short(&self) -> bool {
        self.position() > self.bytes.len() * 8
    }

    /// Has at least 56 bits in the buffer.
    #[inline(always)]
    fn refill(&mut self) {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            Some(word) => {
                self.buffer |= u64::from_le_bytes(*word) << self.count;
                self.at += (63 - self.count as usize) >> 3;
                self.count |= 56;
            }
            None => self.refill_slowly(),
        }
    }

    #[cold]
    fn refill_slowly(&mut self) {
        while self.count <= 56 {
            let byte = self.bytes.get(self.at).copied().unwrap_or_default();
            self.buffer |= u64::from(byte) << self.count;
            self.at += 1;
            self.count += 8;
        }
    }

    #[inline(always)]
    fn skip(&mut self, bits: u32) {
        self.buffer >>= bits;
        self.count -= bits;
    }

    /// Up to 16 bits, which the buffer must have.
    #[inline(always)]
    fn take(&mut self, bits: u32) -> usize {
        let taken = self.buffer & ((1 << bits) - 1);
        self.skip(bits);
        taken as usize
    }
}

/// What a part of a stream has become: behind the [window](WINDOW), of which `known` bytes at its end are there.
#[derive(Debug, Default)]
pub struct Output<S> {
    /// The window, the output, and room.
    symbols: Vec<S>,
    len: usize,
    known: usize,
    /// Symbols of the output at most.
    most: usize,
}

impl<S: Symbol> Output<S> {
    /// Nothing behind this window, which has up to [`WINDOW`] symbols.
    pub fn begin(&mut self, window: impl ExactSizeIterator<Item = S>, most: usize) {
        let known = window.len();
        if self.symbols.len() < WINDOW + MOST_MATCH {
            self.symbols.resize(WINDOW + GROWTH, S::default());
        }
        for (to, from) in self.symbols[WINDOW - known..].iter_mut().zip(window) {
            *to = from;
        }
        (self.len, self.known, self.most) = (WINDOW, known, most);
    }

    /// The output.
    pub fn symbols(&self) -> &[S] {
        &self.symbols[WINDOW..self.len]
    }

    /// The last symbols of window and output, up to [`WINDOW`].
    pub fn tail(&self) -> &[S] {
        let known = self.known + self.len - WINDOW;
        &self.symbols[self.len - known.min(WINDOW)..self.len]
    }

    /// Makes room for one match more.
    #[cold]
    fn grow(&mut self) -> Result<(), Stop> {
        if self.symbols.len() >= WINDOW + self.most {
            return Err(Stop::Full);
        }
        let len = (self.symbols.len() + self.symbols.len() / 2).max(self.symbols.len() + GROWTH);
        self.symbols
            .resize(len.min(WINDOW + self.most), S::default());
        Ok(())
    }

    /// Inflates blocks up to the first that begins at bit `until` or behind, or the end of the stream. Where it cannot
    /// go on, the blocks before are there, if there are some. Says where it stopped, and whether the stream ends there.
    pub fn inflate(
        &mut self,
        bits: &mut Bits<'_>,
        until: usize,
        codes: &mut Codes,
    ) -> Result<(usize, bool), Stop> {
        let mut end = None;
        loop {
            let before = self.len;
            match self.block(bits, codes) {
                Ok(is_last) => {
                    let position = bits.position();
                    if is_last || position >= until {
                        return Ok((position, is_last));
                    }
                    end = Some((position, false));
                }
                Err(stop) => {
                    self.len = before;
                    return match (end, stop) {
                        (Some(end), Stop::Short | Stop::Full) => Ok(end),
                        _ => Err(stop),
                    };
                }
            }
        }
    }

    /// Inflates a block. Says whether it is the last.
    fn block(&mut self, bits: &mut Bits<'_>, codes: &mut Codes) -> Result<bool, Stop> {
        bits.refill();
        let is_last = bits.take(1) == 1;
        let made = match bits.take(2) {
            0 => self.stored(bits),
            1 => {
                codes.fix();
                self.coded(bits, codes)
            }
            2 => match read_codes(bits, codes) {
                true => self.coded(bits, codes),
                false => Err(Stop::Invalid),
            },
            _ => Err(Stop::Invalid),
        };
        // Zeros behind the input may be anything.
        if bits.is_short() {
            return Err(Stop::Short);
        }
        made.map(|()| is_last)
    }

    fn stored(&mut self, bits: &mut Bits<'_>) -> Result<(), Stop> {
        let at = bits.position().div_ceil(8);
        let Some([a, b, c, d]) = bits.bytes.get(at..).and_then(<[u8]>::first_chunk) else {
            return Err(Stop::Short);
        };
        let len = u16::from_le_bytes([*a, *b]);
        if len != !u16::from_le_bytes([*c, *d]) {
            return Err(Stop::Invalid);
        }
        let bytes = bits
            .bytes
            .get(at + 4..)
            .and_then(|rest| rest.get(..len.into()));
        let bytes = bytes.ok_or(Stop::Short)?;
        while self.symbols.len() < self.len + bytes.len() {
            self.grow()?;
        }
        for (to, &byte) in self.symbols[self.len..].iter_mut().zip(bytes) {
            *to = byte.into();
        }
        self.len += bytes.len();
        *bits = Bits::new(bits.bytes, (at + 4 + bytes.len()) * 8);
        Ok(())
    }

    fn coded(&mut self, bits: &mut Bits<'_>, codes: &Codes) -> Result<(), Stop> {
        loop {
            if self.symbols.len() < self.len + MOST_MATCH + 3 {
                self.grow()?;
            }
            // In registers.
            let mut local = *bits;
            let oldest = WINDOW - self.known;
            let ended = run(&mut local, codes, &mut self.symbols, &mut self.len, oldest);
            *bits = local;
            if ended? {
                return Ok(());
            }
            if bits.is_short() {
                return Err(Stop::Short);
            }
        }
    }
}

/// Inflates symbols until the end of the block (`true`) or of the room. `oldest` is the first place of the output that may be
/// repeated.
#[inline(never)]
fn run<S: Symbol>(
    bits: &mut Bits<'_>,
    codes: &Codes,
    symbols: &mut [S],
    len: &mut usize,
    oldest: usize,
) -> Result<bool, Stop> {
    let mut bits_ = *bits;
    let room = symbols.len().saturating_sub(MOST_MATCH + 3);
    let mut at = *len;
    let outcome = loop {
        if at > room || bits_.at > bits_.bytes.len() + 8 {
            break Ok(false);
        }
        bits_.refill();
        let mut code = codes.letters[bits_.buffer as usize % huffman::LETTERS_ROOT];
        if code & LITERAL != 0 {
            bits_.skip(code & 63);
            symbols[at] = ((code >> 16) as u8).into();
            at += 1;
            code = codes.letters[bits_.buffer as usize % huffman::LETTERS_ROOT];
            if code & LITERAL != 0 {
                bits_.skip(code & 63);
                symbols[at] = ((code >> 16) as u8).into();
                at += 1;
                code = codes.letters[bits_.buffer as usize % huffman::LETTERS_ROOT];
                if code & LITERAL != 0 {
                    bits_.skip(code & 63);
                    symbols[at] = ((code >> 16) as u8).into();
                    at += 1;
                    continue;
                }
            }
        }
        if code & SUBTABLE != 0 {
            let place = bits_.buffer as usize >> huffman::LETTERS_BITS & ((1 << (code & 63)) - 1);
            code = codes.letters[(code >> 16) as usize + place];
            if code & LITERAL != 0 {
                bits_.skip(code & 63);
                symbols[at] = ((code >> 16) as u8).into();
                at += 1;
                continue;
            }
        }
        if code & (END | INVALID) != 0 {
            bits_.skip(code & 63);
            break match code & END != 0 {
                true => Ok(true),
                false => Err(Stop::Invalid),
            };
        }
        let count = (code >> 16) as usize + extra(bits_.buffer, code);
        bits_.skip(code & 63);
        if bits_.count < 28 {
            bits_.refill();
        }
        let mut code = codes.distances[bits_.buffer as usize % huffman::DISTANCES_ROOT];
        if code & SUBTABLE != 0 {
            let place = bits_.buffer as usize >> huffman::DISTANCES_BITS & ((1 << (code & 63)) - 1);
            code = codes.distances[(code >> 16) as usize + place];
        }
        if code & INVALID != 0 {
            break Err(Stop::Invalid);
        }
        let distance = (code >> 16) as usize + extra(bits_.buffer, code);
        bits_.skip(code & 63);
        if distance > at - oldest {
            break Err(Stop::Invalid);
        }
        repeat(symbols, at, distance, count);
        at += count;
    };
    *bits = bits_;
    *len = at;
    outcome
}

/// The bits behind a code that belong to it.
#[inline(always)]
fn extra(buffer: u64, code: u32) -> usize {
    // As many as `code` takes altogether, less those of the code itself.
    ((buffer & ((1 << (code & 63)) - 1)) >> (code >> 8 & 15)) as usize
}

/// Writes `count` symbols at `at`, and up to [`WIDE`] more that are overwritten later.
#[inline(always)]
fn repeat<S: Symbol>(symbols: &mut [S], at: usize, distance: usize, count: usize) {
    let from = at - distance;
    let span = &mut symbols[from..at + count + WIDE];
    if distance >= WIDE {
        let mut i = 0;
        while i < count {
            let part: [S; WIDE] = *span[i..].first_chunk().unwrap_or(&[S::default(); WIDE]);
            span[distance + i..distance + i + WIDE].copy_from_slice(&part);
            i += WIDE;
        }
    } else if distance == 1 {
        let symbol = span[0];
        span[1..=count].fill(symbol);
    } else {
        for i in 0..count {
            span[distance + i] = span[i];
        }
    }
}

/// In which order the lengths of the codes of lengths come.
const ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// Reads the codes of a block. Whether there can be such.
fn read_codes(bits: &mut Bits<'_>, codes: &mut Codes) -> bool {
    let letters = bits.take(5) + 257;
    let distances = bits.take(5) + 1;
    let count = bits.take(4) + 4;
    if letters > 286 || distances > 30 {
        return false;
    }
    let mut lengths = [0; 19];
    for &place in &ORDER[..count] {
        if bits.count < 3 {
            bits.refill();
        }
        lengths[place] = bits.take(3) as u8;
    }
    let Some(table) = huffman::lengths_table(&lengths) else {
        return false;
    };
    let mut all = [0_u8; 286 + 30];
    let total = letters + distances;
    let mut at = 0;
    while at < total {
        bits.refill();
        let code = table[bits.buffer as usize % table.len()];
        bits.skip((code & 7).into());
        let symbol = code >> 3;
        let (length, times) = match symbol {
            0..16 => (symbol, 1),
            16 if at == 0 => return false,
            16 => (all[at - 1], 3 + bits.take(2)),
            17 => (0, 3 + bits.take(3)),
            _ => (0, 11 + bits.take(7)),
        };
        let Some(span) = all[..total].get_mut(at..at + times) else {
            return false;
        };
        span.fill(length);
        at += times;
    }
    let (letters, distances) = all[..total].split_at(letters);
    letters[256] != 0 && codes.make(letters, distances)
}

/// The first bit of `among` at which a block may begin: one with codes of its own that is not the last. A candidate is wrong
/// now and then.
pub fn find(bytes: &[u8], among: Range<usize>, codes: &mut Codes) -> Option<usize> {
    /// Bits of a word at which 13 bits begin.
    const STEP: usize = 48;
    let mut begin = among.start / 8 * 8;
    while begin < among.end {
        let rest = bytes.get(begin / 8..)?;
        let word = u64::from_le_bytes(*rest.first_chunk()?);
        // At each bit: not the last, codes of its own, and 286 letters and 30 distances at most.
        let many =
            |bit: u32| word >> bit & word >> (bit + 1) & word >> (bit + 2) & word >> (bit + 3);
        let mut starts = !word & !(word >> 1) & word >> 2 & !many(4) & !many(9);
        starts &= (1 << STEP) - 1;
        while starts != 0 {
            let bit = starts.trailing_zeros() as usize;
            starts &= starts - 1;
            let position = begin + bit;
            if !among.contains(&position) {
                continue;
            }
            // The lengths of the codes of lengths: 1 means half of all codes, and no fewer are used.
            let header = &rest[bit / 8..];
            let header = u128::from_le_bytes(*header.first_chunk()?) >> (bit % 8 + 13);
            let count = (header as usize & 15) + 4;
            let lengths = (header >> 4) as u64 & ((1 << (3 * count)) - 1);
            let used: u32 = (0..count)
                .map(|i| SHARES[(lengths >> (3 * i)) as usize & 7])
                .sum();
            if used != 128 {
                continue;
            }
            let mut bits = Bits::new(bytes, position + 3);
            bits.refill();
            if read_codes(&mut bits, codes) && !bits.is_short() {
                return Some(position);
            }
        }
        begin += STEP;
    }
    None
}

/// Of 128 codes of 7 bits, how many a code of each length takes.
const SHARES: [u32; 8] = [0, 64, 32, 16, 8, 4, 2, 1];

/// Bytes of symbols behind this window, which has [`WINDOW`] bytes.
pub fn resolve(symbols: &[u16], window: &[u8], bytes: &mut Vec<u8>) {
    // By symbols, so that there is nothing to decide.
    let mut table = [0; 1 << 16];
    for byte in 0..=u8::MAX {
        table[usize::from(byte)] = byte;
    }
    table[MARKER.into()..].copy_from_slice(window);
    bytes.clear();
    bytes.extend(symbols.iter().map(|&symbol| table[usize::from(symbol)]));
}

/// The byte of a symbol behind this window.
pub fn byte(symbol: u16, window: &[u8]) -> u8 {
    match symbol.checked_sub(MARKER) {
        Some(place) => window[usize::from(place)],
        None => symbol as u8,
    }
}

/// An unknown window.
pub fn markers() -> impl ExactSizeIterator<Item = u16> {
    (0..WINDOW).map(|place| MARKER | place as u16)
}
