//! [`Values`]: how the 64 bits that a map keeps as a value are read as a number.

use std::fmt;
use std::io::Write;

use clap::ValueEnum;
use gpumap::Number;

/// What values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Values {
    /// Unsigned integers.
    #[default]
    Unsigned,
    /// Signed integers.
    Signed,
    /// Floating-point numbers.
    Float,
}

/// The bit of a sign.
const SIGN: u64 = 1 << 63;

/// Bytes of a value as text at most: 17 digits, two signs, a point, an exponent.
pub const MOST_TEXT: usize = 28;

impl Values {
    /// What a saved map says of them.
    pub fn number(self) -> Number {
        match self {
            Self::Unsigned => Number::Unsigned,
            Self::Signed => Number::Signed,
            Self::Float => Number::Float,
        }
    }

    /// Those that a saved map has.
    pub fn of_number(number: Number) -> Self {
        match number {
            Number::Unsigned => Self::Unsigned,
            Number::Signed => Self::Signed,
            Number::Float => Self::Float,
        }
    }

    /// The bits of a narrow value as those of a wide one.
    pub fn widen(self, bits: u32) -> u64 {
        match self {
            Self::Unsigned => bits.into(),
            Self::Signed => i64::from(bits as i32) as u64,
            Self::Float => f64::from(f32::from_bits(bits)).to_bits(),
        }
    }

    /// The bits of a number in text; unsigned ones and those without a sign may be hexadecimal with `0x`.
    pub fn parse(self, text: &str) -> Option<u64> {
        match self {
            Self::Unsigned => parse_unsigned(text),
            Self::Signed => match text.parse::<i64>() {
                Ok(number) => Some(number as u64),
                Err(_) => parse_unsigned(text).filter(|&bits| bits < SIGN),
            },
            Self::Float => {
                // Digits beyond the greatest number are no infinity.
                let is_number = |number: &f64| number.is_finite() || !text.contains(is_digit);
                text.parse().ok().filter(is_number).map(f64::to_bits)
            }
        }
    }

    /// Whether bits are no number, but a NaN.
    pub fn is_nan(self, bits: u64) -> bool {
        self == Self::Float && f64::from_bits(bits).is_nan()
    }

    /// Bits that are, as unsigned integers, in the order of these numbers. That of floating-point numbers is the
    /// `totalOrder` of IEEE 754: NaNs come at its ends.
    pub fn to_ordered(self, bits: u64) -> u64 {
        match self {
            Self::Unsigned => bits,
            Self::Float if bits & SIGN != 0 => !bits,
            Self::Signed | Self::Float => bits ^ SIGN,
        }
    }

    /// The opposite of [`to_ordered`](Self::to_ordered).
    pub fn of_ordered(self, ordered: u64) -> u64 {
        match self {
            Self::Unsigned => ordered,
            Self::Float if ordered & SIGN == 0 => !ordered,
            Self::Signed | Self::Float => ordered ^ SIGN,
        }
    }

    /// A number as text.
    pub fn text(self, bits: u64) -> String {
        let mut text = [0; MOST_TEXT];
        let len = self.put(bits, &mut text);
        String::from_utf8_lossy(&text[..len]).into_owned()
    }

    /// Writes a number as text, which is read back as the same, and returns how many bytes that takes.
    pub fn put(self, bits: u64, text: &mut [u8]) -> usize {
        match self {
            Self::Unsigned => put_integer(bits, text),
            Self::Signed => put_integer(bits as i64, text),
            Self::Float => {
                let room = text.len();
                let mut rest = &mut *text;
                // There is room for any number.
                let _ = write!(rest, "{:?}", f64::from_bits(bits));
                room - rest.len()
            }
        }
    }
}

/// Writes an integer in decimal, and returns how many bytes that takes.
pub fn put_integer(number: impl itoa::Integer, text: &mut [u8]) -> usize {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number);
    text[..digits.len()].copy_from_slice(digits.as_bytes());
    digits.len()
}

fn is_digit(one: char) -> bool {
    one.is_ascii_digit()
}

/// An unsigned integer, decimal or hexadecimal.
pub fn parse_unsigned(text: &str) -> Option<u64> {
    // `from_str_radix` alone would take a sign.
    if !text.starts_with(is_digit) {
        return None;
    }
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.starts_with('+') => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// In a sentence.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsigned => "unsigned 64-bit integer",
            Self::Signed => "signed 64-bit integer",
            Self::Float => "floating-point number",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_as_they_were() {
        let spread = (0..2_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let edges = [
            0,
            1,
            SIGN,
            SIGN - 1,
            u64::MAX,
            f64::MIN_POSITIVE.to_bits(),
            1,
            SIGN | 1,
        ];
        let floats = [
            1e300,
            -1e-300,
            0.1,
            -0.0,
            1e16,
            f64::INFINITY,
            f64::MIN,
            f64::MAX,
        ];
        let all = spread.chain(edges).chain(floats.map(f64::to_bits));
        for bits in all {
            for values in [Values::Unsigned, Values::Signed, Values::Float] {
                let is_nan = values == Values::Float && f64::from_bits(bits).is_nan();
                let back = values.parse(&values.text(bits)).unwrap();
                assert!(back == bits || is_nan, "{}", values.text(bits));
                assert_eq!(values.of_ordered(values.to_ordered(bits)), bits);
            }
        }
        assert_eq!(Values::Signed.text(-7_i64 as u64), "-7");
        assert_eq!(Values::Float.text((-0.5_f64).to_bits()), "-0.5");
        assert_eq!(Values::Float.text(f64::NAN.to_bits()), "NaN");
    }

    #[test]
    fn the_order_is_that_of_the_numbers() {
        let floats = [
            f64::NEG_INFINITY,
            -2.5,
            -1e-9,
            -0.0,
            0.0,
            1e-9,
            3.0,
            f64::INFINITY,
        ];
        let ordered = floats.map(|number| Values::Float.to_ordered(number.to_bits()));
        assert!(ordered.is_sorted_by(|one, next| one < next));
        let signed = [i64::MIN, -5, -1, 0, 1, i64::MAX];
        let ordered = signed.map(|number| Values::Signed.to_ordered(number as u64));
        assert!(ordered.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn texts_that_are_none() {
        for text in [
            "",
            "x",
            "-",
            "1.5",
            "0x",
            "0x-1",
            "9223372036854775808",
            "0x8000000000000000",
        ] {
            assert_eq!(Values::Signed.parse(text), None, "{text}");
        }
        for text in [
            "", "x", "-", "1,5", "0x10", "1e", "1.5.2", "1e400", "-1e999",
        ] {
            assert_eq!(Values::Float.parse(text), None, "{text}");
        }
        assert_eq!(Values::Signed.parse("0xff"), Some(255));
        assert_eq!(Values::Float.parse("-1.5e3"), Some((-1500.0_f64).to_bits()));
    }
}
