//! The sizes of pairs on the command line.

use clap::ValueEnum;

/// Bytes of key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PairKind {
    /// 4-byte keys, 4-byte values.
    #[value(name = "4+4")]
    FourFour,
    /// 4-byte keys, 8-byte values.
    #[value(name = "4+8")]
    FourEight,
    /// 8-byte keys, 4-byte values.
    #[value(name = "8+4")]
    EightFour,
    /// 8-byte keys, 8-byte values.
    #[value(name = "8+8")]
    EightEight,
    /// A set of 4-byte keys.
    #[value(name = "4+0")]
    FourAlone,
    /// A set of 8-byte keys.
    #[value(name = "8+0")]
    EightAlone,
}
