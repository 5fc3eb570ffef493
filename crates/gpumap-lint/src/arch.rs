//! The GPU architectures that PTX is shipped for.

use std::fmt;

/// A virtual architecture: PTX for it runs on that compute capability and every later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arch {
    /// Volta: the first one with independent thread scheduling and scoped atomics.
    Sm70,
    /// Hopper: 128-bit atomics among others.
    Sm90,
}

impl Arch {
    /// Every shipped architecture, oldest first.
    pub const ALL: [Arch; 2] = [Arch::Sm70, Arch::Sm90];

    /// The name that compilers know it by.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Sm70 => "sm_70",
            Arch::Sm90 => "sm_90",
        }
    }

    /// Its compute capability, times ten.
    pub fn capability(self) -> u32 {
        match self {
            Arch::Sm70 => 70,
            Arch::Sm90 => 90,
        }
    }

    /// The architecture of that name, if it is one of ours.
    pub fn from_name(name: &str) -> Option<Arch> {
        Arch::ALL.into_iter().find(|arch| arch.name() == name)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
